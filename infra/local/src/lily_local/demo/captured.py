"""A small shop whose tables are captured, known to Trino and mapped to assets; nothing of it is left afterwards."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from lily_cli.client import LilyClient
from lily_local.demo.checks import until
from lily_local.demo.stack import Stack
from lily_local.trino.publishing import published

_ROWS_SECONDS = 180
_TABLES = """
CREATE TABLE customers (id integer PRIMARY KEY, name text, email text);
CREATE TABLE newsletter (id integer PRIMARY KEY, address text);
INSERT INTO customers VALUES (1, 'Ann', 'ann@example.org'), (2, 'Bo', 'bo@example.org');
INSERT INTO newsletter SELECT id, email FROM customers;
"""


@dataclass(frozen=True)
class CapturedShop:
    """`schema` is what Trino calls it, `root` begins the names of its assets, `name` that of what is declared."""

    name: str
    schema: str
    root: str


@contextmanager
def captured_shop(stack: Stack, client: LilyClient) -> Iterator[CapturedShop]:
    """Ready when both tables' rows are in the lake. Raises DemoError or UserError."""
    name = f"demo{secrets.token_hex(3)}"
    server = urlsplit(stack.postgres_uri)
    root = f"postgres://{server.hostname}:{server.port}/{name}/public"
    shop = CapturedShop(name, f"{name}_public", root)
    with ExitStack() as exits:
        password = _database(stack.postgres_uri, name, exits)
        config = {
            "source": name,
            "host": server.hostname,
            "port": server.port,
            "database": name,
            "user": name,
            "password": password,
            "tables": ["public.customers", "public.newsletter"],
        }
        made = client.post("/v1/connectors", {"kind": "debezium-postgres", "name": name, "config": config})
        exits.callback(client.delete, f"/v1/connectors/{made['id']}")
        published(
            stack.config,
            [f"cdc.{name}.public.{table}" for table in ("customers", "newsletter")],
            _ROWS_SECONDS,
        )
        for suffix in ("", "_latest"):
            mapping = {"table": f"lake.{shop.schema}.{{table}}{suffix}", "asset": f"{root}/{{table}}"}
            declare(client, "mappings", f"{name}{suffix.replace('_', '-')}", mapping, exits)
        yield shop


def declare(client: LilyClient, kind: str, name: str, body: Mapping[str, object], exits: ExitStack) -> None:
    """PUT it; `exits` deletes it."""
    path = f"/v1/{kind}/{name}"
    client.put_text(path, json.dumps(body).encode(), "application/json")
    exits.callback(client.delete, path)


def _database(server_uri: str, name: str, exits: ExitStack) -> str:
    """Make database and role, filled; `exits` drops both, once the connector has let go. Returns the role's password."""
    password = secrets.token_urlsafe(18)
    role = sql.Identifier(name)
    with psycopg.connect(server_uri, autocommit=True) as admin:
        admin.execute(
            sql.SQL("CREATE ROLE {} LOGIN REPLICATION PASSWORD {}").format(role, sql.Literal(password))
        )
        admin.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(role, role))
    exits.callback(_drop, server_uri, name)
    own = urlsplit(server_uri)._replace(
        path=f"/{name}", netloc=f"{name}:{password}@{urlsplit(server_uri).netloc.rpartition('@')[2]}"
    )
    with psycopg.connect(urlunsplit(own)) as shop:
        shop.execute(_TABLES)
    return password


def _drop(server_uri: str, name: str) -> None:
    role = sql.Identifier(name)
    slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s"
    with psycopg.connect(server_uri, autocommit=True) as admin:

        def dropped() -> bool:
            try:
                admin.execute(slots, [name])
                admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(role))
            except psycopg.errors.ObjectInUse:
                return False
            return True

        until("the demo's database to be let go", dropped, 60)
        admin.execute(sql.SQL("DROP ROLE {}").format(role))
