"""SQL of `<table>_latest` for engines that read the lake by themselves: DuckDB, Trino, Spark SQL.

The text says the same as `cdc.tables.latest`; a test holds the two equal. docs/lake.md shows how it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from lily_spark.cdc.tables import ADDED, HIDDEN

Dialect = Literal["duckdb", "trino", "spark"]


#: By the names that people type.
DIALECTS: dict[str, Dialect] = {"duckdb": "duckdb", "trino": "trino", "spark": "spark"}


@dataclass(frozen=True)
class _Words:
    """What the engines spell differently. `newest(value, version)` keeps a value that is null; `{}` are arguments."""

    newest: str
    contains: str
    entry: str
    quote: str


_WORDS: dict[Dialect, _Words] = {
    "duckdb": _Words("arg_max_null({}, {})", "list_contains({}, {})", "{}[{}]", '"'),
    "trino": _Words("max_by({}, {})", "contains({}, {})", "element_at({}, {})", '"'),
    "spark": _Words("max_by({}, {})", "array_contains({}, {})", "{}[{}]", "`"),
}


def latest_sql(table: str, schema: pa.Schema, key: Sequence[str], dialect: Dialect) -> str:
    """A SELECT of the newest row of each key that is there, over both layers.

    `table` is how the engine names the Delta table, written as it is into the text; `schema` is that of the table.
    """
    words = _WORDS[dialect]

    def name(column: str) -> str:
        return words.quote + column.replace(words.quote, 2 * words.quote) + words.quote

    columns = [field for field in schema if field.name not in HIDDEN and field.name not in key]
    picked = [
        f"{words.newest.format(name(field.name), _version(field, words, name('__version')))} AS {name(field.name)}"
        for field in columns
    ]
    keys = ", ".join(map(name, key))
    selected = ",\n  ".join([keys, *picked])
    deleted = words.newest.format(name("__deleted"), name("__version"))
    return f"SELECT\n  {selected}\nFROM {table}\nGROUP BY {keys}\nHAVING NOT {deleted}"


def _version(field: pa.Field, words: _Words, version: str) -> str:
    """The version that a column's value is of; null where the row lacks it (only large values are ever left out)."""
    kind = field.type
    large = pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_nested(kind)
    if not large or field.name in ADDED.names:
        return version
    text = "'" + field.name.replace("'", "''") + "'"
    lacks = words.contains.format("__unavailable", text)
    known = words.entry.format("__known", text)
    return f"CASE WHEN coalesce({lacks}, false) THEN NULL ELSE coalesce({known}, {version}) END"
