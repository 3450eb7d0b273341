"""Kafka Connect's schemas, as the JSON converter writes them beside each message (`schemas.enable=true`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson


class RefusedError(Exception):
    """A table, or messages of it, that cannot be taken without doing harm; the text says why."""


@dataclass(frozen=True)
class ConnectType:
    """One Connect schema. `logical` is its name (`io.debezium.time.Date`); of a struct `fields` are its members."""

    kind: str
    logical: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    items: ConnectType | None = None
    keys: ConnectType | None = None
    fields: tuple[tuple[str, ConnectType], ...] = ()

    def member(self, name: str) -> ConnectType | None:
        """The member of that name, None when there is none."""
        return next((kind for held, kind in self.fields if held == name), None)


def parse(text: str) -> ConnectType:
    """The schema in a message's `schema`. Raises RefusedError when it is not one."""
    try:
        return _parse(orjson.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as broken:
        raise RefusedError(f"not a Connect schema: {type(broken).__name__}: {broken}") from broken


def _parse(schema: dict[str, Any]) -> ConnectType:
    return ConnectType(
        kind=str(schema["type"]),
        logical=str(schema.get("name") or ""),
        parameters={str(name): str(value) for name, value in (schema.get("parameters") or {}).items()},
        items=_within(schema, "items", "values"),
        keys=_within(schema, "keys"),
        fields=tuple((str(member["field"]), _parse(member)) for member in schema.get("fields") or ()),
    )


def _within(schema: dict[str, Any], *names: str) -> ConnectType | None:
    held = next((schema[name] for name in names if schema.get(name) is not None), None)
    return None if held is None else _parse(held)
