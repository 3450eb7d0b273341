"""The lake's tables made known to Trino: each captured table of the stack's tenant, and its `_latest` view."""

from __future__ import annotations

from dataclasses import dataclass

from trino.dbapi import Cursor

from lily_local.trino.configure import CATALOG
from lily_spark.cdc.registry import stored
from lily_spark.cdc.views import latest_sql
from lily_spark.config import SparkSettings


@dataclass(frozen=True)
class Published:
    """One table as Trino names it."""

    schema: str
    table: str
    path: str


def captured(path: str) -> Published:
    """How Trino names the captured table in `cdc/<tenant>/<source>/<schema>.<table>`."""
    _, _, source, name = path.split("/")
    schema, _, table = name.rpartition(".")
    # Trino knows names in lower case alone.
    return Published((f"{source}_{schema}" if schema else source).lower(), table.lower(), path)


def publish(settings: SparkSettings, cursor: Cursor, path: str) -> Published:
    """Make a captured table known under its name, and its view as its columns are now.

    Raises LookupError when there is no such table in the lake.
    """
    layered = stored(path, settings)
    if layered is None:
        raise LookupError(f"there is no table {path} in the lake")
    named = captured(path)
    uri = settings.lake_table(path).replace("s3a://", "s3://", 1)
    schema, table = _quoted(named.schema), _quoted(named.table)
    _run(cursor, f"CREATE SCHEMA IF NOT EXISTS {schema}")
    known = {row[0] for row in _run(cursor, f"SHOW TABLES FROM {schema}")}
    if named.table not in known:
        literals = ", ".join(_literal(text) for text in (named.schema, named.table, uri))
        _run(cursor, f"CALL {CATALOG}.system.register_table({literals})")
    text = latest_sql(f"{CATALOG}.{schema}.{table}", layered.table.schema, layered.hashed, "trino")
    view = _quoted(f"{named.table}_latest")
    _run(cursor, f"CREATE OR REPLACE VIEW {schema}.{view} SECURITY INVOKER AS {text}")
    return named


def _run(cursor: Cursor, statement: str) -> list[list[object]]:
    cursor.execute(statement)  # type: ignore[no-untyped-call]
    return list(cursor.fetchall())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
