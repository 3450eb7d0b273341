"""The events query: both lanes, each identity once, into bronze and silver."""

from __future__ import annotations

from pyspark.sql.streaming.query import StreamingQuery

from lily_common.events import BULK_TOPIC, PRIORITY_TOPIC
from lily_spark.runtime.app import Application
from lily_spark.sinks.lake import QUERY, EventSink
from lily_spark.sources import kafka as source
from lily_spark.transforms.envelope import parse
from lily_spark.transforms.heartbeats import without_heartbeats
from lily_spark.transforms.registers import with_keys


def start(app: Application, sink: EventSink) -> StreamingQuery:
    """Start the query from its checkpoint. Bulk is bounded per batch, so that priority never waits long behind it."""
    settings, stream = app.settings, source.stream
    priority = stream(app.spark, settings, PRIORITY_TOPIC, rows_per_batch=settings.priority_rows_per_batch)
    bulk = stream(app.spark, settings, BULK_TOPIC, rows_per_batch=settings.bulk_rows_per_batch)
    sink.settle()
    return (
        with_keys(parse(without_heartbeats(priority.unionByName(bulk))))
        .writeStream.queryName(QUERY)
        .foreachBatch(sink.write)
        .option("checkpointLocation", str(settings.checkpoint("lake", QUERY)))
        .trigger(processingTime=f"{settings.events_trigger_ms} milliseconds")
        .start()
    )
