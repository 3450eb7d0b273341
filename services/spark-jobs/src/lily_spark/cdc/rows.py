"""Kafka messages of change data to rows of their tables, in Spark SQL alone: DataFrames in, DataFrames out."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lily_spark.cdc.connect import ConnectType
from lily_spark.cdc.evolution import ddl
from lily_spark.cdc.shape import Column, Shape, event_raw, unavailable
from lily_spark.cdc.tables import literal
from lily_spark.layered import quoted
from lily_spark.transforms.text import text

PLACE = ("topic", "partition", "offset")
PROBLEM = "__problem"
_CORRUPT = "__corrupt"
_OPTIONS = {"columnNameOfCorruptRecord": _CORRUPT}
_PARTS = f"schema string, payload string, {_CORRUPT} string"


def envelopes(messages: DataFrame) -> DataFrame:
    """Schema and payload of each message, taken apart: PLACE, time, ks, k, vs, v (texts), shape, __problem.

    A message without value is Kafka's tombstone after a delete, which says nothing that the delete did not: it goes.
    `shape` is the same for messages with the same two schemas.
    """
    parts = (F.from_json(text(F.col(name)), _PARTS, _OPTIONS).alias(name) for name in ("key", "value"))
    read = messages.where("value IS NOT NULL").select(*PLACE, F.col("timestamp").alias("time"), *parts)
    return read.selectExpr(
        *PLACE,
        "time",
        "key.schema AS ks",
        "key.payload AS k",
        "value.schema AS vs",
        "value.payload AS v",
        "xxhash64(key.schema, value.schema) AS shape",
        f"CASE WHEN key.{_CORRUPT} IS NOT NULL OR value.{_CORRUPT} IS NOT NULL THEN 'not a JSON object' "
        "WHEN value.schema IS NULL THEN 'no schema: the converter has to have schemas.enable=true' "
        f"WHEN value.payload IS NULL THEN 'no payload' END AS {PROBLEM}",
    )


def rows(messages: DataFrame, shape: Shape, columns: Sequence[pa.Field]) -> DataFrame:
    """Rows of a table with these source columns from `envelopes` of one shape, one row for each message.

    Beside the table's columns (without layer and bucket): PLACE without the topic, and `__problem` with the reason
    why a message makes no row.
    """
    read = messages.select(
        "partition",
        "offset",
        "time",
        F.from_json("k", f"{shape.key_raw}, {_CORRUPT} string", _OPTIONS).alias("k"),
        F.from_json("v", f"{shape.value_raw}, {_CORRUPT} string", _OPTIONS).alias("v"),
    )
    by_name = {column.name: column for column in shape.columns}
    key = set(shape.key_names)
    values = [_value(field, by_name.get(field.name), field.name in key) for field in columns]
    return read.selectExpr(
        *values,
        f"{_version(shape.position)} AS __version",
        "v.op AS __op",
        "v.op = 'd' AS __deleted",
        "timestamp_millis(v.source.ts_ms) AS __source_time",
        "time AS __time",
        f"{_unavailable(shape)} AS __unavailable",
        "CAST(NULL AS map<string, string>) AS __known",
        "partition",
        "offset",
        f"{_problem(shape)} AS {PROBLEM}",
    )


def events(messages: DataFrame, value: ConnectType) -> DataFrame:
    """partition, offset, op and version of `envelopes` whose rows are of no account (TRUNCATE has none)."""
    raw, position = event_raw(value)
    read = messages.select("partition", "offset", F.from_json("v", raw).alias("v"))
    return read.selectExpr("partition", "offset", "v.op AS op", f"{_version(position)} AS version")


def _version(position: str) -> str:
    return f"concat(lpad(CAST({position} AS string), 20, '0'), '.', lpad(CAST(offset AS string), 20, '0'))"


def _value(field: pa.Field, column: Column | None, is_key: bool) -> str:
    """SQL of one column; null where the row is deleted or the value was left out."""
    if column is None:
        return f"CAST(NULL AS {ddl(field.type)}) AS {quoted(field.name)}"
    value = column.value
    if column.type.arrow != field.type:
        value = f"CAST({value} AS {ddl(field.type)})"
    if not is_key:
        absent = unavailable(column)
        gone = f"v.op = 'd' OR coalesce({absent}, false)" if absent else "v.op = 'd'"
        value = f"IF({gone}, NULL, {value})"
    return f"{value} AS {quoted(field.name)}"


def _unavailable(shape: Shape) -> str:
    names = [
        f"IF({absent}, {literal(column.name)}, NULL)"
        for column in shape.rest
        if (absent := unavailable(column)) is not None
    ]
    if not shape.whole:
        names = [f"IF({column.raw} IS NULL, {literal(column.name)}, NULL)" for column in shape.rest]
    return f"IF(v.op = 'd', CAST(array() AS array<string>), array_compact(CAST(array({', '.join(names)}) AS array<string>)))"


def _problem(shape: Shape) -> str:
    """SQL of the reason why a message makes no row; null when it makes one. The first that holds is named."""
    needs_row = "v.op IN ('c', 'r')" if not shape.whole else "v.op IN ('c', 'r', 'u')"
    rules = [
        (f"k IS NULL OR k.{_CORRUPT} IS NOT NULL", "the key cannot be read by its schema"),
        (f"v IS NULL OR v.{_CORRUPT} IS NOT NULL", "the value cannot be read by its schema"),
        ("coalesce(v.op, '') NOT IN ('c', 'r', 'u', 'd')", "unknown operation"),
        (f"{needs_row} AND v.after IS NULL", "no row"),
        (f"coalesce({shape.position}, -1) < 0", "no log position"),
        *((f"{column.value} IS NULL", f"no value in key column {column.name}") for column in shape.key),
        *(_lost(column) for column in shape.rest if column.type.fallible),
    ]
    return (
        "CASE " + " ".join(f"WHEN {condition} THEN {literal(reason)}" for condition, reason in rules) + " END"
    )


def _lost(column: Column) -> tuple[str, str]:
    absent = unavailable(column)
    but = f" AND NOT coalesce({absent}, false)" if absent else ""
    return (
        f"v.op <> 'd' AND {column.raw} IS NOT NULL AND {column.value} IS NULL{but}",
        f"the value of column {column.name} cannot be read",
    )
