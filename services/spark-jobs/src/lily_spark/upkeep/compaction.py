"""Compaction of a layered table: closed rounds of the updates layer are folded into the primary layer by one commit.

Only the hash buckets that hold changed keys are rewritten. The commit names whole partitions (the closed rounds,
those buckets), so that a reader sees either both layers as they were or both as they are, and a crash leaves nothing.
"""

from __future__ import annotations

import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lily_common.logs import get_logger
from lily_common.metrics import UPKEEP_SECONDS
from lily_spark.config import SparkSettings
from lily_spark.layered import PRIMARY, UPDATES, Layered, folded
from lily_spark.sinks.layers import UpdatesLayer, rounds
from lily_spark.upkeep.rewriting import Rewriting, TooLargeError

log = get_logger(__name__)


def compact(spark: SparkSession, settings: SparkSettings, updates: UpdatesLayer) -> dict[str, int]:
    """Fold every closed round, the open one included, into the primary layer; returns rounds, buckets and rows."""
    started = time.monotonic()
    last = updates.close_round()
    # After it: the rows of a column that is added meanwhile are in a later round.
    layered = updates.layered
    closed = sorted(number for number in rounds(settings, layered) if number <= last)
    if not closed:
        return {"rounds": 0, "buckets": 0, "rows": 0}
    try:
        done = Rewriting(spark, settings, layered, closed).run()
    except TooLargeError:
        done = _by_spark(spark, settings, layered, closed)
    seconds = time.monotonic() - started
    UPKEEP_SECONDS.labels(layered.table.name, "compact").observe(seconds)
    done = {"rounds": len(closed), **done}
    log.info("compacted", table=layered.table.name, seconds=round(seconds, 2), **done)
    return done


def _by_spark(
    spark: SparkSession, settings: SparkSettings, layered: Layered, closed: list[int]
) -> dict[str, int]:
    """The same as one Spark job, whose memory does not grow with the rows."""
    layer, bucket = F.col(layered.layer), F.col(layered.bucket)
    table = spark.read.format("delta").load(layered.table.uri(settings))
    fresh = table.where((layer == UPDATES) & bucket.isin([-number for number in closed]))
    changed = layered.placed(fresh).persist()
    try:
        counts = {row[layered.bucket]: row["count"] for row in changed.groupBy(bucket).count().collect()}
        buckets = sorted(counts)
        primary = table.where((layer == PRIMARY) & bucket.isin(buckets))
        touched = changed.unionByName(primary.where(layered.grave.in_spark()))
        merged = layered.placed(folded(primary, changed, layered.hashed, touched, layered.current))
        _replace(merged, settings, layered, closed, buckets)
    finally:
        changed.unpersist()
    return {"buckets": len(buckets), "rows": sum(counts.values())}


def _replace(
    merged: DataFrame, settings: SparkSettings, layered: Layered, closed: list[int], buckets: list[int]
) -> None:
    """One commit: the closed rounds and the old files of these buckets out, the merged rows in."""
    layer, bucket = layered.layer, layered.bucket
    old = ", ".join(str(-number) for number in closed)
    touched = ", ".join(map(str, buckets))
    where = (
        f"(`{layer}` = '{UPDATES}' AND `{bucket}` IN ({old})) "
        f"OR (`{layer}` = '{PRIMARY}' AND `{bucket}` IN ({touched}))"
    )
    (
        merged.repartition(len(buckets), bucket)
        .sortWithinPartitions(*layered.sort)
        .write.format("delta")
        .mode("overwrite")
        .option("replaceWhere", where)
        # The state is the same before and after: whoever follows the table's changes is not to see this as one.
        .option("dataChange", "false")
        .save(layered.table.uri(settings))
    )
