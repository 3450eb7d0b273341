"""Rewrites of a whole table of change data by one commit: wider columns, more buckets.

Readers see the table as it was or as it is. A crash leaves it as it was.
"""

from __future__ import annotations

import time

from pyspark.sql import SparkSession

from lily_common.logs import get_logger
from lily_common.metrics import UPKEEP_SECONDS
from lily_spark.cdc.evolution import ddl
from lily_spark.config import SparkSettings
from lily_spark.layered import PRIMARY, Layered, quoted

log = get_logger(__name__)


def widen(spark: SparkSession, settings: SparkSettings, wider: Layered) -> None:
    """Give the table the columns of `wider`, with every row folded into the primary layer.

    Delta's own type widening would not touch a file, but deltalake can neither read nor write a table that has it, and
    Trino has been seen to hide such columns. Nothing may be appended meanwhile.
    """
    with UPKEEP_SECONDS.labels(wider.table.name, "widen").time():
        held = spark.read.format("delta").load(wider.table.uri(settings))
        names = set(held.columns)
        cast = held.selectExpr(
            *(
                f"CAST({quoted(field.name) if field.name in names else 'NULL'} AS {ddl(field.type)}) AS {quoted(field.name)}"
                for field in wider.table.schema
            )
        )
        rows = wider.placed(wider.current(cast))
        (
            rows.repartition(wider.buckets, quoted(wider.bucket))
            .sortWithinPartitions(*map(quoted, wider.sort))
            .write.format("delta")
            .mode("overwrite")
            .option("overwriteSchema", "true")
            .partitionBy(*wider.table.partitions)
            .save(wider.table.uri(settings))
        )


def rebucket(spark: SparkSession, settings: SparkSettings, layered: Layered) -> None:
    """Place the primary layer's rows in the buckets of `layered`. Rows may be appended meanwhile."""
    started = time.monotonic()
    primary = spark.read.format("delta").load(layered.table.uri(settings)).where(f"__layer = '{PRIMARY}'")
    (
        layered.placed(primary)
        .repartition(layered.buckets, quoted(layered.bucket))
        .sortWithinPartitions(*map(quoted, layered.sort))
        .write.format("delta")
        .mode("overwrite")
        .option("replaceWhere", f"__layer = '{PRIMARY}'")
        # Where a row stands is no news to those who follow the table's changes.
        .option("dataChange", "false")
        .save(layered.table.uri(settings))
    )
    seconds = time.monotonic() - started
    UPKEEP_SECONDS.labels(layered.table.name, "rebucket").observe(seconds)
    log.info("buckets doubled", table=layered.table.name, buckets=layered.buckets, seconds=round(seconds, 2))
