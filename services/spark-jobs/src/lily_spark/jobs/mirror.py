"""The mirror's queries, one per lane: the latest state into MongoDB, beside the lake and ahead of it.

Each lane has its own, so that a priority change never waits for a batch of bulk ones.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from lily_common.events import BULK_TOPIC, PRIORITY_TOPIC
from lily_spark.mirror.writer import write_batch
from lily_spark.runtime.app import Application
from lily_spark.sources import kafka as source
from lily_spark.transforms.heartbeats import without_heartbeats

PRIORITY_QUERY = "mirror-priority"
BULK_QUERY = "mirror-bulk"


def add(app: Application) -> None:
    """Start both lanes' queries and keep them running."""
    settings = app.settings
    lanes = (
        (PRIORITY_QUERY, PRIORITY_TOPIC, settings.priority_rows_per_batch, settings.mirror_trigger_ms),
        (BULK_QUERY, BULK_TOPIC, settings.bulk_rows_per_batch, settings.bulk_mirror_trigger_ms),
    )
    for name, topic, rows, trigger_ms in lanes:
        app.queries.add(name, partial(_start, app, name, topic, rows, trigger_ms))


def _start(app: Application, name: str, topic: str, rows: int, trigger_ms: int) -> StreamingQuery:
    changes = source.stream(app.spark, app.settings, topic, rows_per_batch=rows)
    return (
        without_heartbeats(changes)
        .select("key", "value", "topic", "partition", "offset")
        .writeStream.queryName(name)
        .foreachBatch(_write)
        .option("checkpointLocation", str(app.settings.checkpoint("lake", name)))
        .trigger(processingTime=f"{trigger_ms} milliseconds")
        .start()
    )


def _write(batch: DataFrame, batch_id: int) -> None:
    write_batch(batch, batch_id)
