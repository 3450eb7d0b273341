"""Kafka messages to event rows: every message gives a row, and what is wrong with it is said."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
from pyspark.sql import Row, SparkSession

from lily_common.envelope import accept
from lily_spark.transforms.envelope import parse
from lily_spark.transforms.notices import notices

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
TAG = {"qualified_name": "pg://db/ünï/🪷", "tag": "PII", "note": "a\u0000b", "n": 1.5e300}


def accepted(
    kind: str = "lily.classification.attached", data: dict[str, Any] | None = None
) -> dict[str, Any]:
    event = {"specversion": "1.0", "id": "e 1", "source": "urn:s", "type": kind, "data": data or TAG}
    return dict(orjson.loads(accept("acme", event, NOW).value))


def parsed(spark: SparkSession, *values: bytes | None) -> list[Row]:
    schema = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
    rows = [(b"k", value, "lily.changes.priority", 3, number, NOW) for number, value in enumerate(values)]
    return parse(spark.createDataFrame(rows, schema)).orderBy("offset").collect()


def test_an_accepted_event_is_read_whole(spark: SparkSession) -> None:
    envelope = accepted()
    (row,) = parsed(spark, orjson.dumps(envelope))
    assert row["problem"] is None
    assert (row["tenant"], row["source"], row["id"], row["type"]) == (
        "acme",
        "urn:s",
        "e 1",
        envelope["type"],
    )
    assert (row["subject"], row["lane"], row["version"]) == (
        TAG["qualified_name"],
        "priority",
        envelope["stateversion"],
    )
    assert orjson.loads(row["data"]) == TAG
    assert orjson.loads(row["event"]) == envelope
    assert row["accepted_time"].replace(tzinfo=UTC) == row["time"].replace(tzinfo=UTC) == NOW
    assert str(row["date"]) == "2026-01-02"
    assert (row["raw"], row["key"]) == (None, None)


def test_what_is_no_event_says_why_and_keeps_its_bytes(spark: SparkSession) -> None:
    cases = {
        b"": "not a JSON object",
        b"nonsense": "not a JSON object",
        b"[1, 2]": "not a JSON object",
        b"\xff\xfe": "not a JSON object",
        b'{"tenantid": "acme", "id": ': "not a JSON object",
        b"{}": "tenantid is missing",
        None: "no value",
    }
    rows = parsed(spark, *cases)
    assert [row["problem"] for row in rows] == list(cases.values())
    assert [(row["raw"] and bytes(row["raw"])) or None for row in rows] == [value or None for value in cases]
    assert [row["id"] for row in rows] == [f"lily.changes.priority/3/{n}" for n in range(len(cases))]


def test_what_is_wrong_with_an_event_is_named(spark: SparkSession) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"id": ""}, "id is missing"),
        ({"source": None}, "source is missing"),
        ({"type": "lily.unheard.of"}, "unknown type"),
        ({"time": "yesterday"}, "time cannot be read"),
        ({"acceptedtime": "13"}, "acceptedtime cannot be read"),
        ({"stateversion": "1"}, "stateversion cannot be read"),
        ({"data": "text"}, "data is not a JSON object"),
        ({"data": {"qualified_name": "x"}}, "data.tag is missing"),
    ]
    rows = parsed(spark, *(orjson.dumps(accepted() | change) for change, _ in cases))
    assert [row["problem"] for row in rows] == [problem for _, problem in cases]


def test_bytes_that_are_no_utf8_are_replaced_in_an_event(spark: SparkSession) -> None:
    value = orjson.dumps(accepted(data=TAG | {"note": "@"})).replace(b"@", b"\xff")
    (row,) = parsed(spark, value)
    assert row["problem"] is None
    assert orjson.loads(row["event"])["data"]["note"] == orjson.loads(row["data"])["note"] == "\ufffd"


def test_one_bad_message_costs_no_good_one(spark: SparkSession) -> None:
    rows = parsed(spark, b"bad", orjson.dumps(accepted()), None)
    assert [row["problem"] is None for row in rows] == [False, True, False]


def test_notices_are_the_carried_types_unchanged(spark: SparkSession) -> None:
    loud = orjson.dumps(accepted())
    quiet = orjson.dumps(
        accepted("lily.asset.upserted", {"qualified_name": "pg://db/a", "asset_type": "table"})
    )
    rows = spark.createDataFrame(
        [(b"k", v) for v in (loud, quiet, b"junk", None)], "key binary, value binary"
    )
    assert [(bytes(row["key"]), bytes(row["value"])) for row in notices(rows).collect()] == [(b"k", loud)]
