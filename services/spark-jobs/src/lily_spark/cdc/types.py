"""Connect's types, Debezium's logical ones among them, as types of the lake: pure.

Each is three things: how Spark reads it from JSON (`raw`), the SQL that makes of that the value that is kept (`sql`),
and its type in the table (`arrow`). No SQL here fails on a bad value: it gives null, and the caller sees that a value
was lost (`fallible`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from lily_spark.cdc import decimals
from lily_spark.cdc.connect import ConnectType, RefusedError
from lily_spark.layered import quoted

MAX_PRECISION = 38
_TIME = pa.timestamp("us", "UTC")
_TEXT = pa.string()


@dataclass(frozen=True)
class LakeType:
    """`sql` takes the SQL of a raw value and returns that of the value; `fallible`: null may come of what is not null."""

    raw: str
    arrow: pa.DataType
    sql: Callable[[str], str] = lambda value: value
    fallible: bool = False


def lake_type(kind: ConnectType) -> LakeType:
    """How the lake keeps values of `kind`. Raises RefusedError for what it cannot keep."""
    if kind.logical == "org.apache.kafka.connect.data.Decimal":
        return _decimal(kind)
    if kind.logical == "io.debezium.data.VariableScaleDecimal":
        return LakeType(
            "struct<scale: int, value: string>",
            _TEXT,
            lambda v: decimals.text(f"{v}.value", f"{v}.scale"),
            fallible=True,
        )
    found = _LOGICAL.get((kind.logical, kind.kind)) or _BASE.get(kind.kind)
    if found is not None:
        return found
    if kind.kind == "array" and kind.items is not None:
        return _array(lake_type(kind.items))
    if kind.kind == "map" and kind.items is not None:
        return _map(kind, lake_type(kind.items))
    if kind.kind == "struct" and kind.fields:
        return _struct(kind)
    raise RefusedError(f"no type of the lake for {kind.logical or kind.kind!r}")


def _clock(micros: str) -> str:
    """Time of day as `HH:MM:SS.ffffff`: Delta has no such type, and as text it sorts and reads as a time does."""
    return (
        f"format_string('%02d:%02d:%02d.%06d', {micros} DIV 3600000000, {micros} DIV 60000000 % 60, "
        f"{micros} DIV 1000000 % 60, {micros} % 1000000)"
    )


def _if_there(value: str, made: str) -> str:
    return f"IF({value} IS NULL, NULL, {made})"


_BASE = {
    "boolean": LakeType("boolean", pa.bool_()),
    "int8": LakeType("tinyint", pa.int8()),
    "int16": LakeType("smallint", pa.int16()),
    "int32": LakeType("int", pa.int32()),
    "int64": LakeType("bigint", pa.int64()),
    "float": LakeType("float", pa.float32()),
    "float32": LakeType("float", pa.float32()),
    "double": LakeType("double", pa.float64()),
    "float64": LakeType("double", pa.float64()),
    "string": LakeType("string", _TEXT),
    "bytes": LakeType("string", pa.binary(), lambda v: f"try_to_binary({v}, 'base64')", fallible=True),
}
_DATE = LakeType("int", pa.date32(), lambda v: f"date_from_unix_date({v})")
_MILLIS = LakeType("bigint", _TIME, lambda v: f"timestamp_millis({v})")
_MICROS = LakeType("bigint", _TIME, lambda v: f"timestamp_micros({v})")
_NANOS = LakeType("bigint", _TIME, lambda v: f"timestamp_micros({v} DIV 1000)")
_CLOCK_MILLIS = LakeType("int", _TEXT, lambda v: _if_there(v, _clock(f"({v} * 1000L)")))
_CLOCK_MICROS = LakeType("bigint", _TEXT, lambda v: _if_there(v, _clock(v)))
_CLOCK_NANOS = LakeType("bigint", _TEXT, lambda v: _if_there(v, _clock(f"({v} DIV 1000)")))
_ZONED = LakeType("string", _TIME, lambda v: f"try_cast({v} AS timestamp)", fallible=True)
#: (logical name, Connect type) -> how it is kept. What is not here is kept as its Connect type: Json, Xml, Uuid, Enum,
#: EnumSet, Ltree, Interval, ZonedTime and the ISO forms are text as they come.
_LOGICAL = {
    ("io.debezium.time.Date", "int32"): _DATE,
    ("org.apache.kafka.connect.data.Date", "int32"): _DATE,
    ("io.debezium.time.Timestamp", "int64"): _MILLIS,
    ("org.apache.kafka.connect.data.Timestamp", "int64"): _MILLIS,
    ("io.debezium.time.MicroTimestamp", "int64"): _MICROS,
    ("io.debezium.time.NanoTimestamp", "int64"): _NANOS,
    ("io.debezium.time.ZonedTimestamp", "string"): _ZONED,
    ("io.debezium.time.Time", "int32"): _CLOCK_MILLIS,
    ("org.apache.kafka.connect.data.Time", "int32"): _CLOCK_MILLIS,
    ("io.debezium.time.MicroTime", "int64"): _CLOCK_MICROS,
    ("io.debezium.time.NanoTime", "int64"): _CLOCK_NANOS,
}


def _decimal(kind: ConnectType) -> LakeType:
    """Exact where Delta has room for it; else its digits as text."""
    try:
        scale = int(kind.parameters.get("scale", "0"))
        precision = int(kind.parameters.get("connect.decimal.precision", MAX_PRECISION + 1))
    except ValueError as broken:
        raise RefusedError(f"a decimal whose precision cannot be read: {broken}") from broken
    if precision > MAX_PRECISION or not 0 <= scale <= precision:
        return LakeType("string", _TEXT, lambda v: decimals.text(v, str(scale)), fallible=True)
    return LakeType(
        "string",
        pa.decimal128(precision, scale),
        lambda v: f"try_cast({decimals.text(v, str(scale))} AS decimal({precision},{scale}))",
        fallible=True,
    )


def _array(items: LakeType) -> LakeType:
    def sql(value: str) -> str:
        made = items.sql("x")
        return value if made == "x" else f"transform({value}, x -> {made})"

    return LakeType(f"array<{items.raw}>", pa.list_(items.arrow), sql)


def _map(kind: ConnectType, values: LakeType) -> LakeType:
    if kind.keys is None or kind.keys.kind != "string":
        raise RefusedError("a map whose keys are no text")

    def sql(value: str) -> str:
        made = values.sql("y")
        return value if made == "y" else f"transform_values({value}, (k, y) -> {made})"

    return LakeType(f"map<string, {values.raw}>", pa.map_(_TEXT, values.arrow), sql)


def _struct(kind: ConnectType) -> LakeType:
    members = [(name, lake_type(held)) for name, held in kind.fields]

    def sql(value: str) -> str:
        parts = ", ".join(
            f"{member.sql(f'{value}.{quoted(name)}')} AS {quoted(name)}" for name, member in members
        )
        return f"IF({value} IS NULL, NULL, struct({parts}))"

    raw = ", ".join(f"{quoted(name)}: {member.raw}" for name, member in members)
    arrow = pa.struct([(name, member.arrow) for name, member in members])
    return LakeType(f"struct<{raw}>", arrow, sql)
