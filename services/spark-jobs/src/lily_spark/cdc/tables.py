"""The lake tables of change data: the source's columns, what Lily adds to a row, and the rule for the row that holds.

A table carries its primary key as a property, so that any reader and any later process finds it with the table.
Added columns begin with `__`, as Debezium's own do when it flattens an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from lily_spark.layered import Grave, Layered, quoted, united
from lily_spark.tables import COMMON_PROPERTIES, Table

KEY_PROPERTY, BUCKETS_PROPERTY = "lily.key", "lily.buckets"
#: Rows of versions below this one went with a TRUNCATE at the source.
TRUNCATED_PROPERTY = "lily.truncated"

#: What stands in a row beside the source's columns. `__version` orders the rows of one key as bytes: log position,
#: then offset, zero-padded. `__unavailable` names the columns whose value the source did not send (unchanged TOAST)
#: and that no older row known so far has; `__known` says of columns whose value is that of an older row, of which version.
ADDED = pa.schema(
    {
        "__version": pa.string(),
        "__op": pa.string(),
        "__deleted": pa.bool_(),
        "__source_time": pa.timestamp("us", "UTC"),
        "__time": pa.timestamp("us", "UTC"),
        "__unavailable": pa.list_(pa.string()),
        "__known": pa.map_(pa.string(), pa.string()),
        "__layer": pa.string(),
        "__bucket": pa.int32(),
    }
)
_LACKING = ("__unavailable", "__known")
_PLACE = ("__layer", "__bucket")
#: What `latest` leaves out.
HIDDEN = ("__op", "__deleted", "__time", *_LACKING, *_PLACE)


def row_table(
    name: str,
    key: Sequence[str],
    columns: Iterable[pa.Field],
    *,
    buckets: int,
    tombstone_days: float = 30,
) -> Layered:
    """The layered table `name` (a path in the lake) with the source's `columns`, of which `key` is the primary key.

    `buckets` is taken up to a power of two, N; they are numbered from N to 2N - 1. The numbers so tell how many buckets
    there are, and the one commit that doubles them needs to change nothing else.
    """
    buckets = 1 << (max(1, buckets) - 1).bit_length()
    table = Table(
        name,
        pa.schema([*columns, *ADDED]),
        _PLACE,
        (*(column for column in key if column.isidentifier()), "__version", "__time"),
        COMMON_PROPERTIES
        | {
            "delta.enableChangeDataFeed": "true",
            KEY_PROPERTY: ",".join(key),
            BUCKETS_PROPERTY: str(buckets),
        },
    )

    grave = Grave("__deleted", True, "__time", tombstone_days)
    return Layered(
        table,
        hashed=tuple(key),
        sort=tuple(key),
        buckets=buckets,
        current=lambda rows: newest(rows, key).where(~grave.in_spark()),
        grave=grave,
        first_bucket=buckets,
    )


def newest(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Of each key the row with the greatest version; a value that it lacks is that of the newest row which has it.

    Deleted keys stay, as rows with `__deleted`: a row that comes late brings nothing back. Layer and bucket go.
    Since a value that is filled in keeps the version of the row it is from (`__known`), the rows of a key may be folded
    in any order, in any groups and again: the end is the same.
    """
    left_out = (*key, *_LACKING, *_PLACE)
    fields = [field for field in rows.schema.fields if field.name not in left_out]
    large = [field.name for field in fields if may_lack(field.name, field.dataType)]
    names = [field.name for field in fields]
    small = [name for name in names if name not in large]
    # One aggregate a column: those that the reader does not ask for are not even read.
    whole = [
        F.expr(f"max_by({quoted(name)}, __version)").alias(f"__v{place}") for place, name in enumerate(small)
    ]
    known = [
        F.expr(
            f"max_by(struct({quoted(name)} AS value, {_known_version(name)} AS version), {_known_version(name)})"
        ).alias(f"__k{place}")
        for place, name in enumerate(large)
    ]
    value = {name: f"__v{place}" for place, name in enumerate(small)} | {
        name: f"__k{place}.value" for place, name in enumerate(large)
    }
    version = value["__version"]
    lacking = [f"IF(__k{place} IS NULL, {literal(name)}, NULL)" for place, name in enumerate(large)]
    older = [
        f"IF(__k{place}.version < {version}, struct({literal(name)} AS k, __k{place}.version AS v), NULL)"
        for place, name in enumerate(large)
    ]
    return (
        rows.groupBy(*map(quoted, key))
        .agg(*whole, *known)
        .selectExpr(
            *map(quoted, key),
            *(f"{value[name]} AS {quoted(name)}" for name in names),
            f"array_compact(CAST(array({', '.join(lacking)}) AS array<string>)) AS __unavailable",
            f"map_from_entries(array_compact(CAST(array({', '.join(older)}) AS array<struct<k: string, v: string>>)))"
            " AS __known",
        )
    )


def latest(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """What readers see: the source's columns of the rows that are there now, with `__version` and `__source_time`."""
    current = united(rows, key, lambda found: newest(found, key)).where("NOT __deleted")
    return current.select(*(quoted(name) for name in current.columns if name not in HIDDEN))


def may_lack(name: str, kind: DataType) -> bool:
    """Whether a source may leave this column out of an event: only large values are, and those are of these types."""
    large = isinstance(kind, StringType | BinaryType | ArrayType | MapType | StructType)
    return large and name not in ADDED.names


def _known_version(name: str) -> str:
    """The version that this column's value is of; null where the row lacks it."""
    lacks = f"array_contains(__unavailable, {literal(name)})"
    return f"IF(coalesce({lacks}, false), NULL, coalesce(__known[{literal(name)}], __version))"


def literal(text: str) -> str:
    """`text` as a string literal in Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
