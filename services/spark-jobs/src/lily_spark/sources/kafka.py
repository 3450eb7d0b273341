"""Kafka topics as streaming DataFrames, with Spark's own columns (key, value, topic, partition, offset, timestamp)."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from lily_spark.config import SparkSettings


def stream(
    spark: SparkSession,
    settings: SparkSettings,
    topic: str,
    *,
    rows_per_batch: int | None = None,
    headers: bool = False,
) -> DataFrame:
    """Read `topic` from its start (or the query's checkpoint). `rows_per_batch` bounds a micro-batch.

    Rows that Kafka no longer holds stop the query instead of being skipped (`failOnDataLoss`): what was accepted
    is never lost in silence.
    """
    reader = (
        _reader(spark, settings)
        .option("subscribe", topic)
        .option("failOnDataLoss", "true")
        .option("includeHeaders", str(headers).lower())
    )
    if rows_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(rows_per_batch))
    return reader.load()


def stream_of_pattern(
    spark: SparkSession, settings: SparkSettings, pattern: str, *, rows_per_batch: int
) -> DataFrame:
    """Read every topic whose name matches, those that come later too (found with the next batch), from its start.

    A topic may be deleted at any time, which must not stop the others: `failOnDataLoss` is off, and whoever reads looks
    for gaps.
    """
    return (
        _reader(spark, settings)
        .option("subscribePattern", pattern)
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", str(rows_per_batch))
        .load()
    )


def _reader(spark: SparkSession, settings: SparkSettings) -> DataStreamReader:
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap)
        .option("startingOffsets", "earliest")
        .option("fetchOffset.numRetries", "10")
        .option("fetchOffset.retryIntervalMs", "500")
    )
