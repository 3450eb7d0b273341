"""The declarations as of now: those of tenants, from the compacted topic `lily.tables`, and the built-in ones."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from pydantic import BaseModel, Field

from lily_common.compacted import Compacted
from lily_common.events import TABLES_TOPIC
from lily_common.gold.builtin import EVERYONE, builtin
from lily_common.gold.spec import TableSpec

_GROUP = "lily-lake-tables"


class Declaration(BaseModel, frozen=True):
    """One message of `lily.tables`. `tenant` is EVERYONE for a built-in table."""

    tenant: str = Field(pattern=r"^([a-z][a-z0-9-]{1,38}[a-z0-9]|\*)$")
    name: str
    declaration: TableSpec

    @property
    def id(self) -> str:
        return f"{self.tenant}|{self.name}"


class Declarations:
    """Reads them whenever asked. Thread-safe."""

    def __init__(self, bootstrap: str) -> None:
        self._topic = Compacted(bootstrap, TABLES_TOPIC, _GROUP, parse)
        self._builtin = {
            declaration.id: declaration
            for declaration in (
                Declaration(tenant=EVERYONE, name=name, declaration=spec) for name, spec in builtin().items()
            )
        }

    def current(self) -> Mapping[str, Declaration]:
        """`tenant|name` -> declaration. Raises UnavailableError when Kafka does not answer."""
        return {**self._topic.current(), **self._builtin}

    def close(self) -> None:
        self._topic.close()


def parse(value: bytes) -> Declaration:
    """Raises ValueError for what is no declaration: the last good one of its key then holds."""
    return Declaration.model_validate(orjson.loads(value))
