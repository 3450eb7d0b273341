"""Grants and masking views of a real PostgreSQL, asked as the reader itself asks."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.support.stack import Stack, running_stack

from lily_common.policies.decide import Decision, decide
from lily_common.policies.model import Policy, Who, read
from lily_connectors.enforcing.keeper import Report, Scope, keep, restore
from lily_connectors.enforcing.wanted import Name, Reader

pytestmark = pytest.mark.stack

SHOP = """
CREATE TABLE customers (id integer PRIMARY KEY, name varchar(40), email text, born date, region text);
INSERT INTO customers VALUES (1, 'Ann', 'ann@example.org', '1990-01-02', 'eu'), (2, 'Bo', NULL, NULL, 'us');
CREATE TABLE orders (id integer PRIMARY KEY, customer integer);
INSERT INTO orders VALUES (10, 1);
CREATE TABLE secrets (id integer);
"""
ALL = [(1, "Ann", "ann@example.org"), (2, "Bo", None)]


@dataclass
class Shop:
    """A database with a reader, and tags that a test sets."""

    uri: str
    reader: str
    reader_uri: str
    tags: dict[str, set[str]] = field(default_factory=dict)
    policies: list[Policy] = field(default_factory=list)

    def policy(self, name: str, **body: Any) -> None:
        self.policies = [one for one in self.policies if one.name != name] + [read({"name": name, **body})]

    def keep(self, *, views: bool = False) -> Report:
        return asyncio.run(self._with(lambda one: keep(one, self.scope(views=views), self.decide)))

    def restore(self, *, views: bool = False) -> None:
        asyncio.run(self._with(lambda one: restore(one, self.scope(views=views))))

    def scope(self, *, views: bool) -> Scope:
        return Scope(("public",), (Reader(self.reader, ("analysts",)),), views)

    def decide(self, table: Name, column: str | None, who: Who) -> Decision:
        name = table.table if column is None else f"{table.table}/{column}"
        return decide(self.policies, self.tags.get(name, set()), who)

    async def _with(self, work: Any) -> Any:
        async with await psycopg.AsyncConnection.connect(self.uri, autocommit=True) as connection:
            return await work(connection)

    def run(self, statement: str) -> None:
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(statement.replace("{reader}", self.reader))  # type: ignore[arg-type]

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """As the reader."""
        with psycopg.connect(self.reader_uri, autocommit=True) as connection:
            return connection.execute(statement.replace("{reader}", self.reader)).fetchall()  # type: ignore[arg-type]

    def refused(self, statement: str) -> bool:
        try:
            self.ask(statement)
        except psycopg.errors.InsufficientPrivilege:
            return True
        return False


@pytest.fixture(scope="module")
def server() -> Iterator[Stack]:
    with running_stack("postgres") as running:
        yield running


@pytest.fixture
def shop(server: Stack) -> Iterator[Shop]:
    tail = secrets.token_hex(4)
    name, reader, password = f"shop_{tail}", f"analyst_{tail}", secrets.token_urlsafe(12)
    admin = server.environment["POSTGRES_URI"]
    port = server.config.port("postgres")
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        connection.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(reader), sql.Literal(password))
        )
    made = Shop(
        f"{admin.rpartition('/')[0]}/{name}",
        reader,
        f"postgresql://{reader}:{password}@127.0.0.1:{port}/{name}",
    )
    made.run(SHOP)
    made.run("GRANT SELECT ON customers, orders TO {reader}")
    made.policy("pii", tags=["PII"], action="mask", unless={"groups": ["stewards"]})
    yield made
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(reader)))


def test_a_tagged_column_can_no_longer_be_read(shop: Shop) -> None:
    first = shop.keep()
    assert first.drift == first.problems == []
    assert shop.ask("SELECT id, name, email FROM customers ORDER BY id") == ALL
    shop.tags["customers/email"] = {"PII"}
    told = shop.keep()
    assert told.changes == [f"{shop.reader} on public.customers: may read born, id, name, region"]
    assert shop.refused("SELECT email FROM customers")
    assert shop.refused("SELECT * FROM customers")
    assert shop.ask("SELECT name FROM customers ORDER BY id") == [("Ann",), ("Bo",)]
    assert shop.ask("SELECT id FROM orders") == [(10,)]
    assert shop.keep() == Report()
    shop.tags.clear()
    assert shop.keep().changes == [f"{shop.reader} on public.customers: may read all"]
    assert shop.ask("SELECT id, name, email FROM customers ORDER BY id") == ALL


def test_views_mask_at_the_next_query(shop: Shop) -> None:
    shop.keep(views=True)
    query = "SELECT id, name, email FROM public_{reader}.customers ORDER BY id"
    assert shop.ask(query) == ALL
    assert shop.refused("SELECT id FROM customers")
    shop.tags = {"customers/email": {"PII"}, "customers/born": {"PII"}, "customers": {"Regional"}}
    shop.policy("regional", tags=["Regional"], action="filter", filter="region = 'eu'")
    shop.policy("pii", tags=["PII"], action="mask", mask={"kind": "partial", "keep_last": 4})
    told = shop.keep(views=True)
    assert len(told.changes) == 1
    assert told.problems == []
    assert shop.ask(query) == [(1, "Ann", "*****.org")]
    assert shop.ask("SELECT born FROM public_{reader}.customers") == [(None,)]
    assert shop.keep(views=True) == Report()
    shop.tags.clear()
    shop.keep(views=True)
    assert shop.ask(query) == ALL


def test_a_denied_column_leaves_the_view_and_a_denied_table_has_none(shop: Shop) -> None:
    shop.policy("secret", tags=["Secret"], action="deny")
    shop.keep(views=True)
    shop.tags = {"customers/email": {"Secret"}, "orders": {"Secret"}}
    shop.keep(views=True)
    with pytest.raises(psycopg.errors.UndefinedColumn):
        shop.ask("SELECT email FROM public_{reader}.customers")
    assert len(shop.ask("SELECT * FROM public_{reader}.customers")) == 2
    with pytest.raises(psycopg.errors.UndefinedTable):
        shop.ask("SELECT * FROM public_{reader}.orders")
    shop.tags.clear()
    shop.keep(views=True)
    assert shop.ask("SELECT id FROM public_{reader}.orders") == [(10,)]


@pytest.mark.parametrize("views", [False, True])
def test_drift_is_told_and_repaired(shop: Shop, views: bool) -> None:
    shop.tags["customers/email"] = {"PII"}
    shop.keep(views=views)
    shop.run("GRANT SELECT ON customers TO {reader}")
    if views:
        shop.run("CREATE OR REPLACE VIEW public_{reader}.customers AS SELECT * FROM public.customers")
        shop.run("DROP VIEW public_{reader}.orders")
    told = shop.keep(views=views)
    assert told.changes == told.problems == []
    assert len(told.drift) == (3 if views else 1)
    assert shop.refused("SELECT email FROM customers")
    if views:
        masked = shop.ask("SELECT email FROM public_{reader}.customers")
        assert masked == [(None,), (None,)]
        assert shop.ask("SELECT id FROM public_{reader}.orders") == [(10,)]
    assert shop.keep(views=views) == Report()


@pytest.mark.parametrize("views", [False, True])
def test_it_can_be_taken_back_whole(shop: Shop, views: bool) -> None:
    shop.run("REVOKE SELECT ON orders FROM {reader}; GRANT SELECT (id) ON orders TO {reader}")
    shop.tags["customers/email"] = {"PII"}
    shop.keep(views=views)
    shop.restore(views=views)
    assert shop.ask("SELECT id, name, email FROM customers ORDER BY id") == ALL
    assert shop.ask("SELECT id FROM orders") == [(10,)]
    assert shop.refused("SELECT customer FROM orders")
    left = "SELECT nspname FROM pg_namespace WHERE nspname ~ 'lily|analyst'"
    assert shop.ask(left) == []


def test_nothing_is_given_that_was_not_had(shop: Shop) -> None:
    shop.keep()
    assert shop.refused("SELECT id FROM secrets")
    shop.run("GRANT SELECT (id) ON secrets TO {reader}")
    shop.keep()
    assert shop.ask("SELECT id FROM secrets") == []


def test_what_stays_readable_is_told(shop: Shop) -> None:
    shop.tags["customers/email"] = {"PII"}
    shop.run("GRANT SELECT ON customers TO PUBLIC")
    assert shop.keep().problems == [
        f"{shop.reader} on public.customers: can still read email, by PUBLIC or another role"
    ]


def test_a_mask_that_cannot_be_made_shuts_its_table_alone(shop: Shop) -> None:
    shop.keep(views=True)
    shop.policy("pii", tags=["PII"], action="mask", mask={"kind": "sql", "expression": "nonsense({column})"})
    shop.tags["customers/email"] = {"PII"}
    told = shop.keep(views=True)
    assert len(told.problems) == 1
    assert "nonsense" in told.problems[0]
    assert shop.refused("SELECT id FROM public_{reader}.customers")
    assert shop.ask("SELECT id FROM public_{reader}.orders") == [(10,)]


def test_a_new_column_of_the_table_is_shown_by_the_view(shop: Shop) -> None:
    shop.keep(views=True)
    shop.run("ALTER TABLE customers ADD COLUMN phone text DEFAULT 'x'")
    shop.keep(views=True)
    assert shop.ask("SELECT phone FROM public_{reader}.customers") == [("x",), ("x",)]


def test_a_missing_role_is_told(shop: Shop) -> None:
    scope = Scope(("public",), (Reader("nobody_knows"),), views=False)
    told = asyncio.run(shop._with(lambda one: keep(one, scope, shop.decide)))
    assert told.problems == ["there is no role nobody_knows"]


def test_what_was_shut_opens_when_the_mask_is_mended(shop: Shop) -> None:
    shop.keep(views=True)
    shop.policy("pii", tags=["PII"], action="mask", mask={"kind": "sql", "expression": "nonsense({column})"})
    shop.tags["customers/email"] = {"PII"}
    shop.keep(views=True)
    shop.tags.clear()
    assert shop.keep(views=True).problems == []
    assert len(shop.ask("SELECT email FROM public_{reader}.customers")) == 2
