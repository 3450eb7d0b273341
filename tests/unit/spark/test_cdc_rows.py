"""Messages of change data become rows: each Connect and Debezium type, left-out values, and what cannot be read."""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.debezium import START, Mongo, Postgres, Schema, decimal, of, struct

from lily_spark.cdc.connect import RefusedError, parse
from lily_spark.cdc.rows import PROBLEM, envelopes, rows
from lily_spark.cdc.shape import PLACEHOLDER, Shape, shape

Message = tuple[bytes | None, bytes | None]
EXAMPLES = Path(__file__).parents[3] / "contracts" / "examples" / "cdc"
TIME = datetime(2026, 7, 1, tzinfo=UTC)


def _read(spark: SparkSession, *messages: Message) -> tuple[Shape, list[dict[str, Any]]]:
    """The shape of the first message, and the rows that all of them make under it."""
    kafka = [
        {
            "topic": "cdc.acme.shop.public.t",
            "partition": 0,
            "offset": n,
            "timestamp": TIME,
            "key": k,
            "value": v,
        }
        for n, (k, v) in enumerate(messages)
    ]
    schema = pa.schema(
        {
            "topic": pa.string(),
            "partition": pa.int32(),
            "offset": pa.int64(),
            "timestamp": pa.timestamp("us", "UTC"),
            "key": pa.binary(),
            "value": pa.binary(),
        }
    )
    parts = envelopes(spark.createDataFrame(pa.Table.from_pylist(kafka, schema=schema)))
    first = parts.orderBy("offset").first()
    assert first is not None
    made = shape(parse(first["ks"]) if first["ks"] else None, parse(first["vs"]))
    columns = [column.field for column in made.columns]
    found = rows(parts, made, columns).toArrow()
    for field in columns:
        assert found.schema.field(field.name).type.equals(field.type) or field.type == pa.binary()
    return made, sorted(found.to_pylist(maps_as_pydicts="lossy"), key=lambda row: row["offset"])


def _unscaled(number: int) -> str:
    length = (number.bit_length() + 8) // 8
    return base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()


#: What the converter writes, and what stands in the lake.
VALUES: dict[str, tuple[Schema, Any, pa.DataType, Any]] = {
    "boolean": (of("boolean"), True, pa.bool_(), True),
    "int8": (of("int8"), -7, pa.int8(), -7),
    "int16": (of("int16"), 32767, pa.int16(), 32767),
    "int32": (of("int32"), -(2**31), pa.int32(), -(2**31)),
    "int64": (of("int64"), 2**63 - 1, pa.int64(), 2**63 - 1),
    "float": (of("float"), 1.5, pa.float32(), 1.5),
    "double": (of("double"), 0.1, pa.float64(), 0.1),
    "text": (of("string"), "a\"'\\`é\u2028", pa.string(), "a\"'\\`é\u2028"),
    "bytes": (of("bytes"), base64.b64encode(b"\x00\xff").decode(), pa.binary(), b"\x00\xff"),
    "date": (of("int32", "io.debezium.time.Date"), -1, pa.date32(), date(1969, 12, 31)),
    "millis": (
        of("int64", "io.debezium.time.Timestamp"),
        1_700_000_000_123,
        pa.timestamp("us", "UTC"),
        datetime(2023, 11, 14, 22, 13, 20, 123000, UTC),
    ),
    "micros": (
        of("int64", "io.debezium.time.MicroTimestamp"),
        -1,
        pa.timestamp("us", "UTC"),
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    ),
    "nanos": (
        of("int64", "io.debezium.time.NanoTimestamp"),
        1_700_000_000_123_456_789,
        pa.timestamp("us", "UTC"),
        datetime(2023, 11, 14, 22, 13, 20, 123456, UTC),
    ),
    "zoned": (
        of("string", "io.debezium.time.ZonedTimestamp"),
        "2026-01-02T03:04:05.678901+02:00",
        pa.timestamp("us", "UTC"),
        datetime(2026, 1, 2, 1, 4, 5, 678901, UTC),
    ),
    "time": (of("int32", "io.debezium.time.Time"), 3_661_001, pa.string(), "01:01:01.001000"),
    "microtime": (of("int64", "io.debezium.time.MicroTime"), 86_400_000_000, pa.string(), "24:00:00.000000"),
    "connectdate": (of("int32", "org.apache.kafka.connect.data.Date"), 1, pa.date32(), date(1970, 1, 2)),
    "interval": (of("string", "io.debezium.time.Interval"), "P1M", pa.string(), "P1M"),
    "microduration": (of("int64", "io.debezium.time.MicroDuration"), 5, pa.int64(), 5),
    "json": (of("string", "io.debezium.data.Json"), '{"a": 1.10}', pa.string(), '{"a": 1.10}'),
    "uuid": (of("string", "io.debezium.data.Uuid"), "0" * 36, pa.string(), "0" * 36),
    "enum": (of("string", "io.debezium.data.Enum", parameters={"allowed": "a,b"}), "b", pa.string(), "b"),
    "decimal": (decimal(10, 2), _unscaled(-1250), pa.decimal128(10, 2), Decimal("-12.50")),
    "whole": (decimal(38, 0), _unscaled(10**37), pa.decimal128(38, 0), Decimal(10**37)),
    "wide": (decimal(60, 3), _unscaled(-1), pa.string(), "-0.001"),
    "variable": (
        struct({"scale": of("int32"), "value": of("bytes")}, "io.debezium.data.VariableScaleDecimal"),
        {"scale": 3, "value": _unscaled(123456)},
        pa.string(),
        "123.456",
    ),
    "texts": (of("array", items=of("string")), ["x", None], pa.list_(pa.string()), ["x", None]),
    "dates": (
        of("array", items=of("int32", "io.debezium.time.Date")),
        [0, 1],
        pa.list_(pa.date32()),
        [date(1970, 1, 1), date(1970, 1, 2)],
    ),
    "decimals": (
        of("array", items=decimal(5, 1)),
        [_unscaled(15), None],
        pa.list_(pa.decimal128(5, 1)),
        [Decimal("1.5"), None],
    ),
    "map": (
        of("map", keys=of("string"), values=of("string")),
        {"a": "b"},
        pa.map_(pa.string(), pa.string()),
        {"a": "b"},
    ),
    "point": (
        struct(
            {"x": of("double"), "wkb": of("bytes"), "srid": of("int32")}, "io.debezium.data.geometry.Point"
        ),
        {"x": 1.0, "wkb": base64.b64encode(b"\x01").decode(), "srid": None},
        pa.struct([("x", pa.float64()), ("wkb", pa.binary()), ("srid", pa.int32())]),
        {"x": 1.0, "wkb": b"\x01", "srid": None},
    ),
}


def test_every_type_is_kept_as_what_it_says(spark: SparkSession) -> None:
    table = Postgres({"id": of("int64")} | {name: schema for name, (schema, *_) in VALUES.items()}, ("id",))
    row = {"id": 1} | {name: value for name, (_, value, *_) in VALUES.items()}
    made, found = _read(spark, table.create(row), table.create(dict.fromkeys(row) | {"id": 2}))
    kinds = {column.name: column.type.arrow for column in made.columns}
    assert kinds == {"id": pa.int64()} | {name: kind for name, (_, _, kind, _) in VALUES.items()}
    full, empty = found
    assert [full[PROBLEM], empty[PROBLEM]] == [None, None]
    assert {name: full[name] for name in VALUES} == {name: kept for name, (*_, kept) in VALUES.items()}
    assert {empty[name] for name in VALUES} == {None}
    assert (full["__op"], full["__deleted"], full["__unavailable"], full["__time"]) == ("c", False, [], TIME)
    assert full["__version"] == f"{1008:020d}.{0:020d}"
    assert full["__source_time"] == datetime.fromtimestamp(START + 1008, UTC)


def test_a_value_left_out_is_named_in_every_form_that_debezium_gives_it(spark: SparkSession) -> None:
    word = PLACEHOLDER
    coded = base64.b64encode(word.encode()).decode()
    forms = {
        "text": (of("string"), word),
        "json": (of("string", "io.debezium.data.Json"), word),
        "hstore": (of("string", "io.debezium.data.Json"), f'{{"{word}":"{word}"}}'),
        "bytes": (of("bytes"), coded),
        "texts": (of("array", items=of("string")), [word]),
        "binaries": (of("array", items=of("string")), [coded]),
        "ints": (of("array", items=of("int32")), list(word.encode())),
        "longs": (of("array", items=of("int64")), list(word.encode())),
        "map": (of("map", keys=of("string"), values=of("string")), {word: word}),
    }
    table = Postgres({"id": of("int64"), "n": of("int32")} | {k: s for k, (s, _) in forms.items()}, ("id",))
    row = {"id": 1, "n": 5} | {name: value for name, (_, value) in forms.items()}
    _, (found,) = _read(spark, table.update(row))
    assert found[PROBLEM] is None
    assert set(found["__unavailable"]) == set(forms)
    assert {found[name] for name in forms} == {None}
    assert found["n"] == 5


def test_a_delete_keeps_the_key_alone(spark: SparkSession) -> None:
    table = Postgres({"a": of("string"), "b": of("int32"), "c": of("string")}, ("b", "a"))
    key, value = table.delete({"a": "x", "b": 2})
    made, (found,) = _read(spark, (key, value), (key, None))
    assert made.key_names == ("b", "a")
    assert (found["a"], found["b"], found["c"]) == ("x", 2, None)
    assert (found["__op"], found["__deleted"], found["__unavailable"]) == ("d", True, [])


def test_each_message_that_makes_no_row_says_why(spark: SparkSession) -> None:
    table = Postgres(
        {"id": of("int32"), "d": decimal(4, 2), "z": of("string", "io.debezium.time.ZonedTimestamp")}, ("id",)
    )
    fine = table.create({"id": 1, "d": _unscaled(1), "z": "2026-01-01T00:00:00Z"})
    cases = {
        "the value of column d cannot be read": table.create({"id": 1, "d": "@", "z": None}),
        "the value of column z cannot be read": table.create({"id": 1, "d": None, "z": "tomorrow"}),
        "no value in key column id": table.create({"id": None, "d": None, "z": None}),
        "the key cannot be read by its schema": table.create({"id": "one", "d": None, "z": None}),
        "unknown operation": table.message("x", after={"id": 1, "d": None, "z": None}),
        "no row": (fine[0], table.message("u", before={"id": 1, "d": None, "z": None})[1]),
        "no log position": table.create({"id": 1, "d": None, "z": None}, lsn=-1),
    }
    too_much = table.create({"id": 1, "d": _unscaled(12345), "z": None})
    _, found = _read(spark, fine, *cases.values(), too_much)
    assert [row[PROBLEM] for row in found] == [None, *cases, "the value of column d cannot be read"]


def test_what_is_no_envelope_is_told_from_what_is(spark: SparkSession) -> None:
    table = Postgres({"id": of("int32")}, ("id",))
    key, value = table.create({"id": 1})
    bare = orjson.dumps(orjson.loads(value)["payload"])
    kafka = [(key, value), (key, bare), (key, b"no json"), (b"no json", value), (key, None)]
    frame = spark.createDataFrame(
        [("t", 0, n, TIME, k, v) for n, (k, v) in enumerate(kafka)],
        "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary",
    )
    found = {row["offset"]: row[PROBLEM] for row in envelopes(frame).collect()}
    no_schema = "no schema: the converter has to have schemas.enable=true"
    assert found == {0: None, 1: no_schema, 2: "not a JSON object", 3: "not a JSON object"}


def test_documents_of_mongodb_are_text_ordered_by_cluster_time(spark: SparkSession) -> None:
    collection = Mongo()
    made, found = _read(
        spark,
        collection.message("c", '{"$oid": "1"}', '{"_id": {"$oid": "1"}, "stars": 5}'),
        collection.message("u", '{"$oid": "1"}', None),
        collection.message("d", '{"$oid": "1"}'),
    )
    assert [column.name for column in made.columns] == ["_id", "document"]
    assert [row["document"] for row in found] == ['{"_id": {"$oid": "1"}, "stars": 5}', None, None]
    assert [row["__unavailable"] for row in found] == [[], ["document"], []]
    assert found[0]["__version"] == f"{(START << 32) | 1:020d}.{0:020d}"
    assert sorted(row["__version"] for row in found) == [row["__version"] for row in found]


def _refused(columns: dict[str, Schema], key: tuple[str, ...], change: Any = lambda value: None) -> str:
    key_text, value = Postgres(columns, key).create(dict.fromkeys(columns))
    whole = orjson.loads(value)
    change(whole["schema"])
    with pytest.raises(RefusedError) as refused:
        shape(
            parse(orjson.dumps(orjson.loads(key_text)["schema"]).decode()) if key_text else None,
            parse(orjson.dumps(whole["schema"]).decode()),
        )
    return str(refused.value)


def test_what_cannot_be_a_table_is_refused() -> None:
    assert _refused({"id": of("int32")}, ()) == "no primary key"
    assert "`__`" in _refused({"id": of("int32"), "__op": of("string")}, ("id",))
    assert "two columns" in _refused({"id": of("int32"), "Id": of("string")}, ("id",))
    assert "two columns" in _refused({"id": of("int32"), "a b": of("string"), "a_b": of("string")}, ("id",))
    assert "no type" in _refused({"id": of("int32"), "x": of("complex")}, ("id",))
    assert "no source" in _refused({"id": of("int32")}, ("id",), lambda s: s["fields"].pop(2))
    flat = orjson.dumps(struct({"id": of("int32")})).decode()
    with pytest.raises(RefusedError, match="not a Debezium envelope"):
        shape(parse(flat), parse(flat))


def test_what_debezium_really_sends(spark: SparkSession) -> None:
    sent = {}
    for path in sorted(EXAMPLES.glob("*.json")):
        message = orjson.loads(path.read_bytes())
        sent[path.stem] = tuple(
            None if part is None else orjson.dumps(part) for part in (message["key"], message["value"])
        )
    _, found = _read(
        spark,
        sent["snapshot"],
        sent["insert"],
        sent["update-unchanged-toast"],
        sent["delete"],
        sent["tombstone"],
    )
    assert [(row["__op"], row[PROBLEM]) for row in found] == [
        ("r", None),
        ("c", None),
        ("u", None),
        ("d", None),
    ]
    first, _, updated, _ = found
    assert (first["amount"], first["__unavailable"]) == (Decimal("12.34"), [])
    assert (updated["state"], updated["note"], updated["__unavailable"]) == ("paid", None, ["note"])
    assert updated["tags"] == ["a", "b"]
    assert [row["__deleted"] for row in found] == [False, False, False, True]
    assert sent["truncate"][0] is None
