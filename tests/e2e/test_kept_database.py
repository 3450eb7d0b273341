"""A PostgreSQL database kept in line with tags, through the API: from a tag's POST to what a reader's query shows."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.support.poll import until
from tests.support.stack import Stack
from tests.support.tenant import Tenant, event

pytestmark = pytest.mark.stack
SHOP = """
CREATE TABLE customers (id integer PRIMARY KEY, email text);
INSERT INTO customers VALUES (1, 'ann@example.org'), (2, 'bo@example.org');
CREATE TABLE contacts (id integer PRIMARY KEY, address text);
INSERT INTO contacts VALUES (1, 'ann@example.org'), (2, 'bo@example.org');
"""
EMAILS = ["ann@example.org", "bo@example.org"]


@dataclass
class Shop:
    """The database, its owner (as whom Lily works) and a reader of it."""

    tenant: Tenant
    name: str
    port: int
    owner: str
    reader: str
    password: str

    @property
    def root(self) -> str:
        return f"postgres://127.0.0.1:{self.port}/{self.name}/public"

    def run(self, statement: str, *, reader: bool = False) -> list[tuple[Any, ...]]:
        user = self.reader if reader else self.owner
        address = f"postgresql://{user}:{self.password}@127.0.0.1:{self.port}/{self.name}"
        with psycopg.connect(address, autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def seen(self, table: str = "customers", column: str = "email") -> list[Any]:
        """What the reader has of the column by its view."""
        query = f"SELECT {column} FROM public_{self.reader}.{table} ORDER BY id"
        return [row[0] for row in self.run(query, reader=True)]

    def refused(self, statement: str) -> bool:
        try:
            self.run(statement, reader=True)
        except psycopg.errors.InsufficientPrivilege:
            return True
        return False

    def connect(self, **changes: Any) -> str:
        config = {
            "host": "127.0.0.1",
            "port": self.port,
            "database": self.name,
            "user": self.owner,
            "password": self.password,
            "readers": [{"role": self.reader, "groups": ["analysts"]}],
        }
        body = {"kind": "postgres-policies", "name": self.name, "config": config | changes}
        answer = self.tenant.client.post("/v1/connectors", json=body)
        assert answer.status_code == 201, answer.text
        assert self.password not in answer.text
        return str(answer.json()["id"])

    def tag(self, name: str, *, attach: bool = True) -> None:
        kind = "classification.attached" if attach else "classification.detached"
        self.tenant.send(event(kind, {"qualified_name": f"{self.root}/{name}", "tag": "PII"}))


@pytest.fixture
def shop(stack: Stack, tenant: Tenant) -> Iterator[Shop]:
    tail = secrets.token_hex(4)
    made = Shop(
        tenant,
        f"kept_{tail}",
        stack.config.port("postgres"),
        f"owner_{tail}",
        f"analyst_{tail}",
        secrets.token_urlsafe(12),
    )
    with psycopg.connect(stack.environment["POSTGRES_URI"], autocommit=True) as admin:
        for role in (made.owner, made.reader):
            statement = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
            admin.execute(statement.format(sql.Identifier(role), sql.Literal(made.password)))
        statement = sql.SQL("CREATE DATABASE {} OWNER {}")
        admin.execute(statement.format(sql.Identifier(made.name), sql.Identifier(made.owner)))
        made.run(SHOP)
        made.run(f"GRANT SELECT ON customers, contacts TO {made.reader}")
        policy = {"tags": ["PII"], "action": "mask", "unless": {"groups": ["stewards"]}}
        assert tenant.client.put("/v1/policies/pii", json=policy).is_success
        yield made
        for listed in tenant.get("/v1/connectors")["items"]:
            tenant.client.delete(f"/v1/connectors/{listed['id']}")
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(made.name)))
        for role in (made.owner, made.reader):
            admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_a_tag_masks_the_next_query_and_all_can_be_taken_back(shop: Shop) -> None:
    connector = shop.connect()
    assert shop.seen() == EMAILS
    assert shop.refused("SELECT email FROM customers")
    shop.tag("customers/email")
    until(lambda: shop.seen() == [None, None], "the mask")
    assert shop.seen("contacts", "address") == EMAILS
    shop.tag("customers/email", attach=False)
    until(lambda: shop.seen() == EMAILS, "the mask to go")
    answer = shop.tenant.client.delete(f"/v1/connectors/{connector}")
    assert answer.json()["removed"], answer.text
    assert [row[0] for row in shop.run("SELECT email FROM customers ORDER BY id", reader=True)] == EMAILS
    assert shop.run("SELECT nspname FROM pg_namespace WHERE nspname ~ 'lily|analyst'") == []


def test_a_tag_that_came_down_the_lineage_revokes(shop: Shop) -> None:
    shop.connect(enforce="columns")
    rule = {"classifications": ["PII"], "along": ["column"]}
    assert shop.tenant.client.put("/v1/propagation/rules/down", json=rule).is_success
    edge = {
        "upstream": f"{shop.root}/customers/email",
        "downstream": f"{shop.root}/contacts/address",
        "kind": "column",
    }
    shop.tenant.send(event("lineage.edge.added", edge))
    shop.tag("customers/email")
    until(lambda: shop.refused("SELECT address FROM contacts"), "the privilege to go")
    assert shop.run("SELECT id FROM contacts ORDER BY id", reader=True) == [(1,), (2,)]
    shop.tag("customers/email", attach=False)
    until(lambda: not shop.refused("SELECT address FROM contacts"), "the privilege to come back")


def test_drift_is_told_and_put_right(shop: Shop) -> None:
    connector = shop.connect()
    shop.tag("customers/email")
    until(lambda: shop.seen() == [None, None], "the mask")
    shop.run(f"GRANT SELECT ON customers TO {shop.reader}")
    shop.run(f"DROP VIEW public_{shop.reader}.contacts")
    assert shop.tenant.client.patch(f"/v1/connectors/{connector}", json={"status": "active"}).is_success
    assert shop.refused("SELECT email FROM customers")
    assert shop.seen("contacts", "address") == EMAILS
    told = shop.tenant.get(f"/v1/connectors/{connector}/status")
    assert told["state"] == "running", told
    assert len(told["drift"]) == 2
    audited = shop.tenant.get("/v1/audit", action="enforcement.drift")["items"]
    assert audited[0]["detail"]["of"] == 2


def test_what_cannot_be_done_is_told(shop: Shop) -> None:
    connector = shop.connect(password="not the password")
    told = shop.tenant.get(f"/v1/connectors/{connector}/status")
    assert told["state"] == "failed"
    assert "authentication" in told["problem"]
    answer = shop.tenant.client.patch(
        f"/v1/connectors/{connector}", json={"config": {"host": "127.0.0.1", "database": "another"}}
    )
    assert answer.status_code == 422
