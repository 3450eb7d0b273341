"""Kafka as a sink of streaming queries: acknowledged by all in-sync replicas, at least once."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from lily_spark.config import SparkSettings


def realtime(
    rows: DataFrame, settings: SparkSettings, *, name: str, topic: str, checkpoint: Path, batch_seconds: int
) -> StreamingQuery:
    """Start a Real-Time Mode query that sends `rows` (key, value) to `topic` as they come.

    After a crash at most `batch_seconds` of messages are sent again: whoever reads them is idempotent.
    """
    query: StreamingQuery = (
        rows.writeStream.format("kafka")
        .queryName(name)
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap)
        .option("topic", topic)
        .option("kafka.acks", "all")
        .option("kafka.linger.ms", "0")
        .option("kafka.compression.type", "none")
        .option("checkpointLocation", str(checkpoint))
        .outputMode("update")
        .trigger(realTime=f"{batch_seconds} seconds")  # type: ignore[call-overload]
        .start()
    )
    return query
