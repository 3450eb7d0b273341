"""What it costs to keep events for ever: bytes and seconds per million, in bronze and as gzipped JSON lines."""

from __future__ import annotations

import gzip
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pyarrow as pa
from deltalake import DeltaTable

from lily_common.acceptor import Acceptor
from lily_spark.config import SparkSettings
from lily_spark.sinks.delta import Appender
from lily_spark.tables import EVENTS, Table, storage_options
from lily_spark.upkeep.housekeeping import Housekeeping
from lily_spark.upkeep.small_files import merge_small_files
from tests.bench import plans
from tests.bench.lake_store import objects
from tests.bench.result import Gate, Row

BATCH = 10_000


def rows(settings: SparkSettings, count: int) -> Iterator[Row]:
    """`archive`: `count` events in batches of 10,000, merged into large files afterwards, beside one object a batch."""
    table = replace(EVENTS, name="bench/archive")
    appender = Appender(table, settings)
    store = objects(settings)
    bucket, _, prefix = settings.lake_table("bench/json").split("://", 1)[1].partition("/")
    ours = peer = 0.0
    packed = 0
    for first in range(0, count, BATCH):
        events = _events(first)
        batch = _rows(first, events)
        started = time.perf_counter()
        appender.append(batch)
        ours += time.perf_counter() - started
        started = time.perf_counter()
        body = gzip.compress(b"\n".join(events), compresslevel=6)
        store.put_object(Bucket=bucket, Key=f"{prefix}/{first:09d}.json.gz", Body=body)
        peer += time.perf_counter() - started
        packed += len(body)
    started = time.perf_counter()
    merge_small_files(table, settings, days=2)
    Housekeeping(settings).keep(table.name)
    ours += time.perf_counter() - started
    held, size = _held(settings, table)
    millions = count / 1e6
    mine = {
        "megabytes_per_million": round(size / 1e6 / millions, 1),
        "seconds_per_million": round(ours / millions, 1),
    }
    theirs = {
        "megabytes_per_million": round(packed / 1e6 / millions, 1),
        "seconds_per_million": round(peer / millions, 1),
    }
    yield Row("archive", mine, Gate(count, held, max(0, count - held), 0), theirs, round(packed / size, 2))


def _events(first: int) -> list[bytes]:
    """Accepted events as Kafka holds them: columns and tables of an estate."""
    now = datetime.now(UTC)
    accept = Acceptor("bench", now, f"{first:032x}")
    chance = random.Random(first)
    made = []
    for number in range(first, first + BATCH):
        kind = "column" if number % plans.TABLES_EVERY else "table"
        event = plans.upsert(
            f"{chance.getrandbits(32):08x}", number, now + timedelta(milliseconds=number % 1000), kind
        )
        made.append(accept(event).value)
    return made


def _rows(first: int, events: list[bytes]) -> pa.Table:
    decoded = [orjson.loads(event) for event in events]
    now = datetime.now(UTC)
    count = len(events)
    columns: dict[str, Any] = {
        "tenant": ["bench"] * count,
        "date": [now.date()] * count,
        "id": [event["id"] for event in decoded],
        "source": [event["source"] for event in decoded],
        "type": [event["type"] for event in decoded],
        "subject": [event["subject"] for event in decoded],
        "time": [datetime.fromisoformat(event["time"]) for event in decoded],
        "accepted_time": [datetime.fromisoformat(event["acceptedtime"]) for event in decoded],
        "lane": [event["lane"] for event in decoded],
        "version": [event["stateversion"] for event in decoded],
        "event": [event.decode() for event in events],
        "topic": ["lily.changes.bulk"] * count,
        "partition": [0] * count,
        "offset": list(range(first, first + count)),
        "kafka_time": [now] * count,
        "commit": [first // BATCH] * count,
    }
    return pa.table({name: columns[name] for name in EVENTS.columns}, schema=EVENTS.schema)


def _held(settings: SparkSettings, table: Table) -> tuple[int, int]:
    """(rows, bytes of the files that hold them)."""
    uri = table.uri(settings).replace("s3a://", "s3://", 1)
    actions = DeltaTable(uri, storage_options=storage_options(settings)).get_add_actions(flatten=True)
    return (
        sum(actions["num_records"].to_pylist()),
        sum(actions["size_bytes"].to_pylist()),
    )
