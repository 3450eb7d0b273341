"""One statement, asked of the embedded Trino as some user."""

from __future__ import annotations

from typing import Any

from trino.dbapi import connect

from lily_local.environment import HOST
from lily_local.trino.configure import CATALOG


def ask(port: int, user: str, statement: str) -> list[tuple[Any, ...]]:
    """All rows. Raises trino.exceptions.Error with what Trino says."""
    connection = connect(host=HOST, port=port, user=user, catalog=CATALOG, source="lily")  # type: ignore[no-untyped-call]
    try:
        cursor = connection.cursor()
        cursor.execute(statement)
        return [tuple(row) for row in cursor.fetchall()]
    finally:
        connection.close()
