"""The shop's PostgreSQL database: made anew from `shop.sql` beside Lily's own, on the same server."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

DATABASE = "shop"


@dataclass(frozen=True)
class Shop:
    """Where the shop is. `uri` holds the password, hence no repr of it."""

    uri: str = field(repr=False)

    @property
    def namespace(self) -> str:
        """As OpenLineage names the server: `postgres://host:port`."""
        parts = urlsplit(self.uri)
        return f"postgres://{parts.hostname}:{parts.port}"

    def qualified_name(self, *path: str) -> str:
        """Of the database (no path), a schema, a table or a column."""
        return "/".join([self.namespace, DATABASE, *path])


def create(server_uri: str) -> Shop:
    """Make the shop's database anew on the server of `server_uri` and fill it; about a second."""
    shop = Shop(urlunsplit(urlsplit(server_uri)._replace(path=f"/{DATABASE}")))
    name = sql.Identifier(DATABASE)
    with psycopg.connect(server_uri, autocommit=True) as connection:
        connection.execute(sql.SQL("drop database if exists {} with (force)").format(name))
        connection.execute(sql.SQL("create database {}").format(name))
    with psycopg.connect(shop.uri) as connection:
        connection.execute((files(__package__) / "shop.sql").read_bytes())
    return shop


def rows(shop: Shop, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(shop.uri) as connection:
        return connection.execute(query.encode()).fetchall()
