"""What messages of one pair of Connect schemas (key, value) mean for the lake: key, columns, and the SQL that makes rows.

Two forms of Debezium's envelope are known: relational (`after` is a struct of the table's columns) and MongoDB's (`after`
is the document as JSON text). A MongoDB collection is a table of `_id` and `document`, both text: documents have no
schema, and columns guessed from what was seen would be refused with the first document that disagrees.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from dataclasses import dataclass

import pyarrow as pa

from lily_spark.cdc.connect import ConnectType, RefusedError
from lily_spark.cdc.tables import literal
from lily_spark.cdc.types import LakeType, lake_type
from lily_spark.layered import quoted

PLACEHOLDER = "__debezium_unavailable_value"
_MONGO_KEY, _MONGO_DOCUMENT = "_id", "document"
_JSON = "io.debezium.data.Json"
_TEXT = LakeType("string", pa.string())


@dataclass(frozen=True)
class Column:
    """A column of the table; `raw` is SQL of its value as it was read from the message."""

    name: str
    type: LakeType
    raw: str

    @property
    def value(self) -> str:
        return self.type.sql(self.raw)

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.type.arrow)


@dataclass(frozen=True)
class Shape:
    """`key_raw` and `value_raw` are what `from_json` reads of the two payloads (DDL), as columns `k` and `v`."""

    key: tuple[Column, ...]
    rest: tuple[Column, ...]
    key_raw: str
    value_raw: str
    position: str
    whole: bool
    """Whether an event with a row has all of it: of MongoDB a document may be missing from an update."""

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.key, *self.rest)

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.key)


def shape(key: ConnectType | None, value: ConnectType) -> Shape:
    """The shape of messages with these schemas. Raises RefusedError for what cannot be a table."""
    members = _members(value)
    if key is None or key.kind != "struct" or not key.fields:
        raise RefusedError("no primary key")
    made = (
        _mongo(key, members)
        if members["after"].logical == _JSON
        else _relational(key, members["after"], members)
    )
    _check_names(made)
    return made


def event_raw(value: ConnectType) -> tuple[str, str]:
    """(what to read, SQL of the log position) of an event without its row. Raises RefusedError as `shape` does."""
    source = _members(value)["source"]
    return f"op string, ts_ms bigint, source struct<{_source(source)}>", _position(source)


def _members(value: ConnectType) -> dict[str, ConnectType]:
    members = dict(value.fields)
    missing = [name for name in ("after", "source", "op") if name not in members]
    if value.kind != "struct" or missing:
        raise RefusedError("not a Debezium envelope: it has no " + ", ".join(missing or ["fields"]))
    return members


def _relational(key: ConnectType, after: ConnectType, members: dict[str, ConnectType]) -> Shape:
    if after.kind != "struct" or not after.fields:
        raise RefusedError("not a Debezium envelope: `after` is no row")
    key_columns = _columns(key, "k")
    rest = tuple(
        column
        for column in _columns(after, "v.after")
        if column.name not in {held.name for held in key_columns}
    )
    after_raw = ", ".join(f"{quoted(name)}: {lake_type(kind).raw}" for name, kind in after.fields)
    return Shape(
        key_columns,
        rest,
        _ddl(key),
        f"op string, ts_ms bigint, after struct<{after_raw}>, source struct<{_source(members['source'])}>",
        _position(members["source"]),
        whole=True,
    )


def _mongo(key: ConnectType, members: dict[str, ConnectType]) -> Shape:
    if key.member("id") is None:
        raise RefusedError("not MongoDB's key: it has no `id`")
    return Shape(
        (Column(_MONGO_KEY, _TEXT, "k.id"),),
        (Column(_MONGO_DOCUMENT, _TEXT, "v.after"),),
        "id string",
        f"op string, ts_ms bigint, after string, source struct<{_source(members['source'])}>",
        _position(members["source"]),
        whole=False,
    )


def _columns(kind: ConnectType, place: str) -> tuple[Column, ...]:
    return tuple(
        Column(column_name(name), lake_type(held), f"{place}.{quoted(name)}") for name, held in kind.fields
    )


def _ddl(kind: ConnectType) -> str:
    return ", ".join(f"{quoted(name)} {lake_type(held).raw}" for name, held in kind.fields)


def _source(source: ConnectType) -> str:
    """Of the source block just what is used."""
    wanted = (("lsn", "bigint"), ("ord", "bigint"), ("ts_ms", "bigint"))
    return ", ".join(f"{name}: {kind}" for name, kind in wanted if source.member(name) is not None)


def _position(source: ConnectType) -> str:
    """SQL of the log position as a number that grows along the log."""
    if source.member("lsn") is not None:
        return "v.source.lsn"
    if source.member("ord") is not None:
        # MongoDB's cluster time: seconds, and the order within the second.
        return "shiftleft(v.source.ts_ms DIV 1000, 32) | v.source.ord"
    raise RefusedError("a source whose log position is not known (neither `lsn` nor `ord`)")


def column_name(name: str) -> str:
    """The column's name in the lake: what is no letter, digit or `_` becomes `_`, so that any engine can read it."""
    return re.sub(r"\W", "_", name)


def _check_names(made: Shape) -> None:
    names = [column.name for column in made.columns]
    if taken := [name for name in names if name.startswith("__")]:
        raise RefusedError(f"column {taken[0]!r}: names that begin with `__` are Lily's own")
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise RefusedError(f"two columns are called {name!r}, but for case or signs")
        seen.add(name.lower())


def unavailable(column: Column) -> str | None:
    """SQL that tells whether the source left this value out; null when values of its type never are.

    Debezium puts the placeholder into arrays in the form of their members.
    """
    kind, arrow, raw = column.type.raw, column.type.arrow, column.raw
    word = literal(PLACEHOLDER)
    if kind == "string" and pa.types.is_string(arrow):
        as_json = literal(f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}')  # hstore as JSON
        return f"{raw} IN ({word}, {as_json})"
    if kind == "string" and pa.types.is_binary(arrow):
        return f"{raw} = {literal(_PLACEHOLDER_BYTES)}"
    if kind == "array<string>":
        return f"{raw} IN (array({word}), array({literal(_PLACEHOLDER_BYTES)}), array({literal(_PLACEHOLDER_UUID)}))"
    if kind in ("array<int>", "array<bigint>", "array<smallint>"):
        member = kind[len("array<") : -1]
        codes = ", ".join(f"CAST({code} AS {member})" for code in PLACEHOLDER.encode())
        return f"{raw} = array({codes})"
    if kind == "map<string, string>":
        return f"map_contains_key({raw}, {word})"
    return None


def _name_uuid(name: bytes) -> str:
    """Java's `UUID.nameUUIDFromBytes`."""
    return str(uuid.UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3))


_PLACEHOLDER_BYTES = base64.b64encode(PLACEHOLDER.encode()).decode()
_PLACEHOLDER_UUID = _name_uuid(PLACEHOLDER.encode())
