"""Kafka topics as streaming DataFrames, with Spark's own columns (key, value, topic, partition, offset, timestamp)."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

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
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .option("includeHeaders", str(headers).lower())
        .option("fetchOffset.numRetries", "10")
        .option("fetchOffset.retryIntervalMs", "500")
    )
    if rows_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(rows_per_batch))
    return reader.load()
