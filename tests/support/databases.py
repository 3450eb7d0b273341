"""Databases that change data is captured from, and a tenant's sources on Kafka Connect."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
from psycopg import sql

from lily_local import control
from lily_local.components.registry import select
from tests.support.poll import until
from tests.support.stack import Stack
from tests.support.tenant import Tenant


def with_connect(stack: Stack) -> Stack:
    """The stack with Kafka Connect in it, ready."""
    names = [component.name for component in select(["connect"])]
    started = control.start(stack.config, ["connect"])
    control.wait(started.config, names, lambda _: None)
    return stack


@dataclass
class Database:
    """A PostgreSQL database of its own with a role that may read its log; `run` executes as its owner."""

    name: str
    user: str
    password: str
    port: int
    admin_uri: str

    def run(self, statement: str, *values: Any) -> list[Any]:
        with psycopg.connect(self._uri(), autocommit=True) as connection:
            cursor = connection.execute(statement, values or None)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def as_admin(self, statement: sql.Composable) -> list[Any]:
        with psycopg.connect(self.admin_uri, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def set_password(self, password: str) -> None:
        statement = sql.SQL("ALTER ROLE {} PASSWORD {}")
        self.as_admin(statement.format(sql.Identifier(self.user), sql.Literal(password)))

    def slots(self) -> list[str]:
        query = sql.SQL("SELECT slot_name FROM pg_replication_slots WHERE database = {}")
        return [row[0] for row in self.as_admin(query.format(sql.Literal(self.name)))]

    def publications(self) -> list[str]:
        return [row[0] for row in self.run("SELECT pubname FROM pg_publication")]

    def _uri(self) -> str:
        return f"postgresql://{self.user}:{self.password}@127.0.0.1:{self.port}/{self.name}"


class Sources:
    """A tenant's sources through the API, and Connect's own word on them."""

    def __init__(self, stack: Stack, tenant: Tenant) -> None:
        self.tenant = tenant
        self._made: list[str] = []
        self.connect = httpx.Client(
            base_url=stack.environment["LILY_CONNECT_URL"], timeout=30, trust_env=False
        )

    def create(self, kind: str, config: dict[str, Any]) -> str:
        body = {"kind": kind, "name": f"source {secrets.token_hex(3)}", "config": config}
        answer = self.tenant.client.post("/v1/connectors", json=body)
        assert answer.status_code == 201, answer.text
        self._made.append(answer.json()["id"])
        return str(answer.json()["id"])

    def postgres(self, database: Database, *tables: str, **changes: Any) -> str:
        config = {
            "source": "shop",
            "host": "127.0.0.1",
            "port": database.port,
            "database": database.name,
            "user": database.user,
            "password": database.password,
            "tables": list(tables),
        }
        return self.create("debezium-postgres", config | changes)

    def status(self, connector: str) -> dict[str, Any]:
        found: dict[str, Any] = self.tenant.get(f"/v1/connectors/{connector}/status")
        return found

    def wait(self, connector: str, state: str, tasks: str = "") -> dict[str, Any]:
        """Until the source is in that state and its task too (or in that of `tasks`); the status then."""

        def there() -> dict[str, Any]:
            found = self.status(connector)
            held = {task["state"] for task in found["tasks"]}
            assert found["state"] == state, found
            assert held == {tasks or state}, found
            return found

        return until(there, f"{connector} to be {state}")

    def patch(self, connector: str, **changes: Any) -> dict[str, Any]:
        answer = self.tenant.client.patch(f"/v1/connectors/{connector}", json=changes)
        assert answer.status_code == 200, answer.text
        changed: dict[str, Any] = answer.json()
        return changed

    def delete(self, connector: str) -> httpx.Response:
        return self.tenant.client.delete(f"/v1/connectors/{connector}")

    def on_connect(self) -> list[str]:
        """Names of this tenant's connectors on Connect."""
        names = self.connect.get("/connectors").json()
        return [name for name in names if name.startswith(f"lily.{self.tenant.id}.")]

    def close(self) -> None:
        """Delete what was made; a second time changes nothing."""
        while self._made:
            self.delete(self._made.pop())


@contextmanager
def new_database(stack: Stack, sources: Sources) -> Iterator[Database]:
    """A database for these sources; gone afterwards, with what reads it."""
    tail = secrets.token_hex(4)
    uri = stack.environment["POSTGRES_URI"]
    made = Database(
        f"shop_{tail}", f"reader_{tail}", secrets.token_urlsafe(16), stack.config.port("postgres"), uri
    )
    name, user = sql.Identifier(made.name), sql.Identifier(made.user)
    password = sql.Literal(made.password)
    made.as_admin(sql.SQL("CREATE ROLE {} LOGIN REPLICATION PASSWORD {}").format(user, password))
    made.as_admin(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, user))
    yield made
    sources.close()

    def slots_gone() -> bool:
        for slot in made.slots():
            made.as_admin(sql.SQL("SELECT pg_drop_replication_slot({})").format(sql.Literal(slot)))
        return True

    def dropped() -> bool:
        try:
            return slots_gone()
        except psycopg.errors.ObjectInUse as in_use:
            raise AssertionError(str(in_use)) from in_use

    until(dropped, "the slots to be free")
    made.as_admin(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
    made.as_admin(sql.SQL("DROP ROLE {}").format(user))
