"""Compaction of silver.assets: closed rounds of the updates layer are folded into the primary layer by one commit.

Only the hash buckets that hold changed assets are rewritten. The commit names whole partitions (the closed rounds,
those buckets), so that a reader sees either both layers as they were or both as they are, and a crash leaves nothing.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lily_common.logs import get_logger
from lily_common.metrics import UPKEEP_SECONDS
from lily_spark.config import SparkSettings
from lily_spark.sinks.layers import UpdatesLayer, rounds
from lily_spark.tables import ASSETS
from lily_spark.transforms.registers import newest, without_buried

log = get_logger(__name__)


def compact(spark: SparkSession, settings: SparkSettings, updates: UpdatesLayer) -> dict[str, int]:
    """Fold every closed round, the open one included, into the primary layer; returns rounds, buckets and rows."""
    started = time.monotonic()
    last = updates.close_round()
    closed = sorted(number for number in rounds(settings) if number <= last)
    if not closed:
        return {"rounds": 0, "buckets": 0, "rows": 0}
    silver = spark.read.format("delta").load(ASSETS.uri(settings))
    fresh = silver.where((F.col("layer") == "updates") & F.col("bucket").isin([-n for n in closed]))
    changed = placed(fresh, settings.silver_buckets).persist()
    try:
        counts = {row["bucket"]: row["count"] for row in changed.groupBy("bucket").count().collect()}
        buckets = sorted(counts)
        primary = silver.where((F.col("layer") == "primary") & F.col("bucket").isin(buckets))
        current = without_buried(newest(primary.unionByName(changed)), _grave_age(settings))
        merged = placed(current, settings.silver_buckets)
        _replace(merged, settings, closed, buckets)
    finally:
        changed.unpersist()
    seconds = time.monotonic() - started
    UPKEEP_SECONDS.labels(ASSETS.name, "compact").observe(seconds)
    done = {"rounds": len(closed), "buckets": len(buckets), "rows": sum(counts.values())}
    log.info("compacted", table=ASSETS.name, seconds=round(seconds, 2), **done)
    return done


def _grave_age(settings: SparkSettings) -> datetime:
    """Tombstones that were accepted before then have done their work."""
    return datetime.now(UTC) - timedelta(days=settings.tombstone_days)


def placed(rows: DataFrame, buckets: int) -> DataFrame:
    """Rows of the primary layer: each in the static hash bucket of its asset."""
    bucket = F.pmod(F.xxhash64("tenant", "subject"), F.lit(buckets)).cast("int")
    return rows.withColumn("layer", F.lit("primary")).withColumn("bucket", bucket).select(*ASSETS.columns)


def _replace(merged: DataFrame, settings: SparkSettings, closed: list[int], buckets: list[int]) -> None:
    """One commit: the closed rounds and the old files of these buckets out, the merged rows in."""
    old = ", ".join(str(-number) for number in closed)
    touched = ", ".join(map(str, buckets))
    where = f"(layer = 'updates' AND bucket IN ({old})) OR (layer = 'primary' AND bucket IN ({touched}))"
    (
        merged.repartition(len(buckets), "bucket")
        .sortWithinPartitions("tenant", "subject", "register")
        .write.format("delta")
        .mode("overwrite")
        .option("replaceWhere", where)
        # The state is the same before and after: whoever follows the table's changes is not to see this as one.
        .option("dataChange", "false")
        .save(ASSETS.uri(settings))
    )
