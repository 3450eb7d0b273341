"""A PostgreSQL database that Lily keeps in line with tags, as its owner and its reader see it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from tests.support.stack import Stack
from tests.support.tenant import Tenant, event

SHOP = """
CREATE TABLE customers (id integer PRIMARY KEY, email text);
INSERT INTO customers VALUES (1, 'ann@example.org'), (2, 'bo@example.org');
CREATE TABLE contacts (id integer PRIMARY KEY, address text);
INSERT INTO contacts VALUES (1, 'ann@example.org'), (2, 'bo@example.org');
"""
EMAILS = ["ann@example.org", "bo@example.org"]


@dataclass
class KeptShop:
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


@contextmanager
def kept_shop(stack: Stack, tenant: Tenant) -> Iterator[KeptShop]:
    """A database with a reader, and a policy that masks what is PII; gone afterwards, with the tenant's connectors."""
    tail = secrets.token_hex(4)
    made = KeptShop(
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
