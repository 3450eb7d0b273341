"""The lake tables of change data: the source's columns, what Lily adds to a row, and the rule for the row that holds.

A table carries its primary key and its number of buckets as properties, so that any reader and any later process
finds them with it. Added columns begin with `__`, as Debezium's own do when it flattens an event.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType

from lily_spark.layered import Layered
from lily_spark.tables import COMMON_PROPERTIES, Table

KEY_PROPERTY, BUCKETS_PROPERTY = "lily.key", "lily.buckets"

#: What stands in a row beside the source's columns. `__version` orders the rows of one key as bytes: log position,
#: then offset, zero-padded. `__unavailable` names the columns whose value the source did not send (unchanged TOAST).
ADDED = pa.schema(
    {
        "__version": pa.string(),
        "__op": pa.string(),
        "__deleted": pa.bool_(),
        "__source_time": pa.timestamp("us", "UTC"),
        "__time": pa.timestamp("us", "UTC"),
        "__unavailable": pa.list_(pa.string()),
        "__layer": pa.string(),
        "__bucket": pa.int32(),
    }
)


def row_table(
    name: str, key: Sequence[str], columns: pa.Schema, *, buckets: int, tombstone_days: float = 30
) -> Layered:
    """The layered table `name` (a path in the lake) with the source's `columns`, of which `key` is the primary key."""
    table = Table(
        name,
        pa.schema([*columns, *ADDED]),
        ("__layer", "__bucket"),
        (*key, "__version", "__time"),
        COMMON_PROPERTIES
        | {
            "delta.enableChangeDataFeed": "true",
            KEY_PROPERTY: ",".join(key),
            BUCKETS_PROPERTY: str(buckets),
        },
    )

    def current(rows: DataFrame) -> DataFrame:
        grave = datetime.now(UTC) - timedelta(days=tombstone_days)
        return newest(rows, key).where(~(F.col("__deleted") & (F.col("__time") < F.lit(grave))))

    return Layered(table, hashed=tuple(key), sort=tuple(key), buckets=buckets, current=current)


def newest(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Of each key the row with the greatest version; a value that it lacks is that of the newest row which has it.

    Deleted keys stay, as rows with `__deleted`: a row that comes late brings nothing back. Layer and bucket go.
    `__unavailable` names what no row of the key has.
    """
    left_out = (*key, "__unavailable", "__layer", "__bucket")
    fields = [field for field in rows.schema.fields if field.name not in left_out]
    # Only large values are ever left out of an event, and those are text or bytes.
    large = [
        field.name
        for field in fields
        if isinstance(field.dataType, StringType | BinaryType) and field.name not in ADDED.names
    ]
    lacking = F.coalesce(F.col("__unavailable"), F.array().cast("array<string>"))
    known = [
        F.max_by(
            F.struct(F.col(_quoted(name)).alias("value")),
            F.when(~F.array_contains(lacking, name), F.col("__version")),
        ).alias(f"__known_{name}")
        for name in large
    ]
    whole = F.max_by(F.struct(*(F.col(_quoted(field.name)) for field in fields)), "__version")
    grouped = rows.groupBy(*map(_quoted, key)).agg(whole.alias("__whole"), *known)
    values = [
        F.col(_quoted(f"__known_{field.name}"))["value"].alias(field.name)
        if field.name in large
        else F.col("__whole")[field.name].alias(field.name)
        for field in fields
    ]
    unknown = [F.when(F.col(_quoted(f"__known_{name}")).isNull(), F.lit(name)) for name in large]
    names = F.array_compact(F.array(*unknown)) if unknown else F.array().cast("array<string>")
    return grouped.select(*map(_quoted, key), *values, names.alias("__unavailable"))


def latest(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """What readers see: the source's columns of the rows that are there now, with `__version` and `__source_time`."""
    current = newest(rows, key).where("NOT __deleted")
    hidden = ("__op", "__deleted", "__time", "__unavailable")
    return current.select(*(_quoted(name) for name in current.columns if name not in hidden))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
