"""Trino as its users see it: queries of one user, a table captured from a database and known to it."""

from __future__ import annotations

from typing import Any

from trino.dbapi import connect
from trino.exceptions import TrinoUserError

from lily_local import control
from lily_local.components.registry import select
from tests.support.stack import Stack

HOST = "127.0.0.1"


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
        connection = connect(host=HOST, port=self._port, user=self.name, catalog="lake")
        try:
            cursor = connection.cursor()
            cursor.execute(statement)
            return [tuple(row) for row in cursor.fetchall()]
        finally:
            connection.close()

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
