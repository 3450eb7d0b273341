"""A collected micro-batch to rows of the tables."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from lily_spark.tables import EVENTS
from lily_spark.transforms.arrow import bronze_rows, in_kafka_order, numbered, silver_rows, split
from lily_spark.transforms.registers import COLUMNS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        *(field for field in EVENTS.schema if field.name != "commit"),
        ("data", pa.string()),
        ("problem", pa.string()),
        ("key", pa.binary()),
        ("raw", pa.binary()),
        ("registers", pa.list_(pa.string())),
    ]
)


def row(**values: Any) -> dict[str, Any]:
    plain = {
        "tenant": "acme",
        "date": date(2026, 1, 1),
        "id": "1",
        "source": "s",
        "type": "t",
        "subject": "a",
        "time": NOW,
        "accepted_time": NOW,
        "lane": "priority",
        "version": "1",
        "event": "{}",
        "topic": "p",
        "partition": 0,
        "offset": 0,
        "kafka_time": NOW,
        "data": "{}",
        "registers": [],
    }
    return plain | values


def batch(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def test_what_cannot_be_read_is_parted_from_what_can() -> None:
    fine, broken = split(batch(row(id="1"), row(id="2", problem="no value"), row(id="3")))
    assert (fine["id"].to_pylist(), broken["id"].to_pylist()) == (["1", "3"], ["2"])


def test_bronze_has_the_columns_of_its_table() -> None:
    rows = numbered(bronze_rows(batch(row(), row(id="2"))), 7)
    assert rows.schema.names == EVENTS.columns
    assert rows["commit"].to_pylist() == [7, 7]


def test_kafka_order_is_by_topic_partition_and_offset() -> None:
    rows = batch(
        row(id="c", partition=1), row(id="b", offset=7), row(id="a", offset=3), row(id="0", topic="b")
    )
    assert in_kafka_order(rows)["id"].to_pylist() == ["0", "a", "b", "c"]


def test_of_each_register_the_greatest_version_of_the_batch_is_kept() -> None:
    rows = silver_rows(
        batch(
            row(id="1", version="1", registers=["x", "y"], data="one"),
            row(id="3", version="3", registers=["x"], data="three"),
            row(id="2", version="2", registers=["x"], data="two"),
            row(id="4", version="1", registers=["x"], subject="other"),
            row(id="5", version="9", registers=[]),
        )
    )
    assert rows.schema.names == list(COLUMNS)
    kept = {(r["subject"], r["register"], r["event_id"], r["data"]) for r in rows.to_pylist()}
    assert kept == {("a", "x", "3", "three"), ("a", "y", "1", "one"), ("other", "x", "4", "{}")}


def test_versions_compare_as_bytes() -> None:
    rows = silver_rows(
        batch(row(id="z", version="1 z", registers=["x"]), row(id="é", version="1 é", registers=["x"]))
    )
    assert rows["event_id"].to_pylist() == ["é"]


def test_a_batch_without_events_makes_no_rows() -> None:
    assert silver_rows(batch()).num_rows == 0
    assert silver_rows(batch(row())).num_rows == 0
