"""Statements asked of the embedded Trino as some user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trino.dbapi import Cursor, connect

from lily_local.environment import HOST
from lily_local.trino.configure import CATALOG


@contextmanager
def as_user(port: int, user: str) -> Iterator[Cursor]:
    """A cursor of that user, in the lake's catalog."""
    connection = connect(host=HOST, port=port, user=user, catalog=CATALOG, source="lily")  # type: ignore[no-untyped-call]
    try:
        yield connection.cursor()
    finally:
        connection.close()


def ask(port: int, user: str, statement: str) -> list[tuple[Any, ...]]:
    """All rows. Raises trino.exceptions.Error with what Trino says."""
    with as_user(port, user) as cursor:
        cursor.execute(statement)  # type: ignore[no-untyped-call]
        return [tuple(row) for row in cursor.fetchall()]
