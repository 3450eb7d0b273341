"""Trino as its users see it: queries of one user, a table captured from a database and known to it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from trino.exceptions import TrinoUserError

from lily_local import control
from lily_local.components.registry import select
from lily_local.environment import TRINO_OPERATOR
from lily_local.trino.asking import as_user, ask
from lily_local.trino.tables import publish
from lily_spark.config import SparkSettings
from tests.support.databases import Sources, new_database
from tests.support.poll import until
from tests.support.stack import Stack
from tests.support.tenant import Tenant, event


def with_trino(stack: Stack) -> Stack:
    """The stack with Trino in it, ready."""
    names = [component.name for component in select(["trino"])]
    started = control.start(stack.config, ["trino"])
    control.wait(started.config, names, lambda _: None)
    return stack


class User:
    """One user of Trino; `refused` says what an error told."""

    def __init__(self, stack: Stack, name: str) -> None:
        self.name = name
        self._port = stack.config.port("trino")

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return ask(self._port, self.name, statement)

    def column(self, statement: str) -> list[Any]:
        """The first column, sorted."""
        return sorted((row[0] for row in self.rows(statement)), key=lambda value: (value is None, value))

    def refused(self, statement: str) -> str:
        try:
            self.rows(statement)
        except TrinoUserError as denied:
            assert denied.error_name == "PERMISSION_DENIED", denied
            return str(denied.message)
        raise AssertionError(f"{self.name} may: {statement}")


SHOP = """
CREATE TABLE customers (id integer PRIMARY KEY, name text, email text, region text);
CREATE TABLE contacts (id integer PRIMARY KEY, address text);
CREATE TABLE "Partners" ("Id" integer PRIMARY KEY, "eMail" text);
INSERT INTO customers VALUES (1, 'Ann', 'ann@example.org', 'eu'), (2, 'Bo', 'bo@example.org', 'us');
INSERT INTO "Partners" VALUES (1, 'ann@example.org'), (2, 'bo@example.org');
INSERT INTO contacts VALUES (1, 'ann@example.org'), (2, 'bo@example.org');
"""
EMAILS = ["ann@example.org", "bo@example.org"]


@dataclass
class TrinoShop:
    """Captured tables as Trino has them (`schema`), and as Lily calls them (`root`)."""

    tenant: Tenant
    schema: str
    root: str
    analyst: User
    steward: User

    def put(self, kind: str, name: str, **body: Any) -> None:
        answer = self.tenant.client.put(f"/v1/{kind}/{name}", json=body)
        assert answer.status_code in (200, 201), answer.text

    def tag(self, name: str, tag: str = "PII", *, attach: bool = True) -> None:
        kind = "classification.attached" if attach else "classification.detached"
        self.tenant.send(event(kind, {"qualified_name": f"{self.root}/{name}", "tag": tag}))

    def emails(self, table: str = "customers_latest", column: str = "email") -> list[Any]:
        return self.analyst.column(f"SELECT {column} FROM {self.schema}.{table}")


@contextmanager
def trino_shop(engine: Stack) -> Iterator[TrinoShop]:
    """Three tables of a real database, captured, known to Trino, and masked where they are PII; of the stack's own tenant."""
    tenant = Tenant(engine.environment["LILY_TENANT"], engine.environment["LILY_API_KEY"], engine.url)
    settings = SparkSettings.model_validate(engine.environment)
    source = f"shop{secrets.token_hex(3)}"
    sources = Sources(engine, tenant)
    with new_database(engine, sources) as database:
        for statement in filter(str.strip, SHOP.split(";")):
            database.run(statement)
        sources.postgres(database, "public.customers", "public.contacts", "public.Partners", source=source)
        root = f"postgres://127.0.0.1:{database.port}/{database.name}/public"
        made = TrinoShop(tenant, f"{source}_public", root, User(engine, "ann"), User(engine, TRINO_OPERATOR))
        with as_user(engine.config.port("trino"), TRINO_OPERATOR) as cursor:
            for table in ("customers", "contacts", "Partners"):
                path = f"cdc/{tenant.id}/{source}/public.{table}"

                def published(path: str = path) -> bool:
                    try:
                        publish(settings, cursor, path)
                    except LookupError as missing:
                        raise AssertionError(str(missing)) from missing
                    return True

                until(published, f"{path} to be published")
        made.put("mappings", "shop", table=f"lake.{made.schema}.{{table}}", asset=f"{root}/{{table}}")
        latest = f"lake.{made.schema}.{{table}}_latest"
        made.put("mappings", "shop-latest", table=latest, asset=f"{root}/{{table}}")
        made.put("policies", "pii", tags=["PII"], action="mask", unless={"users": [TRINO_OPERATOR]})
        until(lambda: made.emails() == EMAILS, "the rows")
        until(lambda: made.emails("contacts_latest", "address") == EMAILS, "the rows of contacts")
        until(lambda: made.emails("partners_latest") == EMAILS, "the rows of partners")
        yield made
