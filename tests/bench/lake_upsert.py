"""Upserts: small batches of random keys into a large table, by layers and by one plain MERGE a batch.

Both tables stand on the same S3, hold the same rows in the same codec, take the same batches from the same Spark
session and are read after each. Every byte that a commit adds is counted, of data files and of the log's own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lily_spark.cdc.tables import ADDED, latest, row_table
from lily_spark.config import SparkSettings
from lily_spark.layered import Layered
from lily_spark.sinks.layers import UpdatesLayer
from lily_spark.tables import open_table
from lily_spark.upkeep.compaction import compact
from tests.bench.lake_store import objects
from tests.bench.result import Gate, Row

BUCKETS = 32
BATCH = 1_000
KEY = ("id",)
COLUMNS = pa.schema(
    {
        "id": pa.int64(),
        "customer": pa.string(),
        "status": pa.string(),
        "amount": pa.float64(),
        "note": pa.string(),
    }
)
_STATUSES = ("open", "paid", "late", "void")


@dataclass
class Measured:
    """Seconds of writing and of reading, and bytes written."""

    writing: float = 0.0
    reading: float = 0.0
    written: int = 0

    def figures(self, **more: Any) -> dict[str, Any]:
        return {
            "seconds": round(self.writing + self.reading, 1),
            "writing_seconds": round(self.writing, 1),
            "reading_seconds": round(self.reading, 1),
            "megabytes_written": round(self.written / 1e6, 1),
            **more,
        }


def rows(
    settings: SparkSettings, session: SparkSession, count: int, batches: int, every: int
) -> Iterator[Row]:
    """`upsert-time` and `upsert-bytes`: `batches` of 1,000 keys into `count` rows, compacted after every `every`."""
    layered = row_table("bench/layered", KEY, list(COLUMNS), buckets=BUCKETS)
    plain = settings.lake_table("bench/plain")
    _fill(session, settings, layered, plain, count)
    changes = [_batch(number, count) for number in range(batches)]
    ours, compactions = _by_layers(session, settings, layered, changes, every)
    peer = _by_merge(session, settings, plain, changes)
    mine = _final(latest(session.read.format("delta").load(layered.table.uri(settings)), KEY))
    theirs = _final(session.read.format("delta").load(plain))
    lost = 0 if mine["hash"] == theirs["hash"] else abs(mine["rows"] - theirs["rows"]) or 1
    gate = Gate(theirs["rows"], mine["rows"], lost, 0)
    beside = {"compactions": compactions, "batches": batches, "rows": count}
    yield Row(
        "upsert-time",
        ours.figures(**beside),
        gate,
        peer.figures(),
        round((peer.writing + peer.reading) / (ours.writing + ours.reading), 2),
    )
    yield Row(
        "upsert-bytes", ours.figures(**beside), gate, peer.figures(), round(peer.written / ours.written, 2)
    )


def _fill(session: SparkSession, settings: SparkSettings, layered: Layered, plain: str, count: int) -> None:
    """The same rows into both tables, in bulk."""
    source = _generated(session.range(count))
    open_table(layered.table, settings)
    primary = layered.placed(source)
    primary.repartition(BUCKETS, layered.bucket).sortWithinPartitions(*KEY).write.format("delta").mode(
        "append"
    ).save(layered.table.uri(settings))
    source.select(*COLUMNS.names, "__version").repartition(BUCKETS).sortWithinPartitions(*KEY).write.format(
        "delta"
    ).save(plain)


def _generated(ids: DataFrame) -> DataFrame:
    """Rows of the layered table for these ids, at version 0."""
    made = ids.select(
        F.col("id"),
        F.concat(F.lit("customer "), (F.col("id") % 100_003).cast("string")).alias("customer"),
        F.element_at(
            F.array(*map(F.lit, _STATUSES)), (F.pmod(F.xxhash64("id"), F.lit(4)) + 1).cast("int")
        ).alias("status"),
        (F.pmod(F.xxhash64("id"), F.lit(1_000_000)) / 100).alias("amount"),
        F.substring(F.sha2(F.col("id").cast("string"), 256), 1, 24).alias("note"),
        F.lit(f"{0:020d}.{0:020d}").alias("__version"),
        F.lit("r").alias("__op"),
        F.lit(False).alias("__deleted"),
        F.lit(datetime.now(UTC)).alias("__source_time"),
        F.lit(datetime.now(UTC)).alias("__time"),
    )
    return made.withColumn("__unavailable", F.array().cast("array<string>")).withColumn(
        "__known", F.create_map().cast("map<string,string>")
    )


def _batch(number: int, count: int) -> pa.Table:
    """`BATCH` random keys with new values, in the layered table's columns but for its place."""
    chance = random.Random(number)
    ids = chance.sample(range(count), BATCH)
    now = datetime.now(UTC)
    columns: dict[str, Any] = {
        "id": ids,
        "customer": [f"customer {chance.randrange(100_003)}" for _ in ids],
        "status": [chance.choice(_STATUSES) for _ in ids],
        "amount": [chance.randrange(1_000_000) / 100 for _ in ids],
        "note": [f"{chance.getrandbits(96):024x}" for _ in ids],
        "__version": [f"{number + 1:020d}.{0:020d}"] * BATCH,
        "__op": ["u"] * BATCH,
        "__deleted": [False] * BATCH,
        "__source_time": [now] * BATCH,
        "__time": [now] * BATCH,
        "__unavailable": [[]] * BATCH,
        "__known": [[]] * BATCH,
    }
    kept = [field for field in (*COLUMNS, *ADDED) if field.name in columns]
    return pa.table(columns, schema=pa.schema(kept))


def _by_layers(
    session: SparkSession, settings: SparkSettings, layered: Layered, batches: list[pa.Table], every: int
) -> tuple[Measured, int]:
    measured, compactions = Measured(), 0
    uri = layered.table.uri(settings)
    before = _written(settings, uri)
    updates = UpdatesLayer(settings, layered)
    for number, batch in enumerate(batches, 1):
        started = time.perf_counter()
        updates.append(batch)
        if number % every == 0 or number == len(batches):
            compact(session, settings, updates)
            compactions += 1
        measured.writing += time.perf_counter() - started
        measured.reading += _read(latest(session.read.format("delta").load(uri), KEY))
    measured.written = _written(settings, uri) - before
    return measured, compactions


def _by_merge(session: SparkSession, settings: SparkSettings, uri: str, batches: list[pa.Table]) -> Measured:
    measured = Measured()
    before = _written(settings, uri)
    for batch in batches:
        started = time.perf_counter()
        session.createDataFrame(batch.select([*COLUMNS.names, "__version"])).createOrReplaceTempView("batch")
        session.sql(
            f"MERGE INTO delta.`{uri}` t USING batch s ON t.id = s.id "
            "WHEN MATCHED AND s.__version > t.__version THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        measured.writing += time.perf_counter() - started
        measured.reading += _read(session.read.format("delta").load(uri))
    measured.written = _written(settings, uri) - before
    return measured


def _read(table: DataFrame) -> float:
    """Seconds that a question over the whole table takes."""
    started = time.perf_counter()
    table.groupBy("status").agg(F.count("*"), F.sum("amount")).collect()
    return time.perf_counter() - started


def _final(table: DataFrame) -> dict[str, int]:
    """Rows, and a hash of every one of them that knows no order."""
    mixed = F.sum(F.xxhash64(*COLUMNS.names, "__version").cast("decimal(38,0)"))
    counted, hashed = table.agg(F.count("*"), mixed).collect()[0]
    return {"rows": int(counted), "hash": int(hashed)}


def _written(settings: SparkSettings, uri: str) -> int:
    """Bytes of everything that stands under the table's path: nothing is removed meanwhile, so all that was written."""
    bucket, _, prefix = uri.split("://", 1)[1].partition("/")
    pages = objects(settings).get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/")
    return sum(found["Size"] for page in pages for found in page.get("Contents", ()))
