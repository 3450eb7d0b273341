"""The events query: both lanes, each identity once, into bronze and silver."""

from __future__ import annotations

import json

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from lily_common.events import BULK_TOPIC, PRIORITY_TOPIC
from lily_common.metrics import STREAM_CONFLICTS, STREAM_REPEATS
from lily_spark.runtime.app import Application
from lily_spark.runtime.generation import Generation
from lily_spark.sinks.lake import QUERY, EventSink
from lily_spark.sources import kafka as source
from lily_spark.transforms.dedupe import dropped, first_of_each
from lily_spark.transforms.envelope import parse
from lily_spark.transforms.registers import with_keys


def start(app: Application, sink: EventSink) -> StreamingQuery:
    """Start the query from its checkpoint. Bulk is bounded per batch, so that priority never waits long behind it."""
    settings = app.settings
    priority = source.stream(
        app.spark, settings, PRIORITY_TOPIC, rows_per_batch=settings.priority_rows_per_batch
    )
    bulk = source.stream(app.spark, settings, BULK_TOPIC, rows_per_batch=settings.bulk_rows_per_batch)
    events = with_keys(first_of_each(parse(priority.unionByName(bulk)), settings.dedupe_days))
    return (
        events.writeStream.queryName(QUERY)
        .foreachBatch(sink.write)
        .option("checkpointLocation", str(settings.checkpoint("lake", QUERY)))
        .trigger(processingTime=f"{settings.events_trigger_ms} milliseconds")
        .start()
    )


def observe(progress: StreamingQueryProgress, generation: Generation) -> None:
    """Count repeats and conflicts, and note how far the query has read."""
    if progress.name != QUERY:
        return
    repeats, conflicts = dropped(progress)
    STREAM_REPEATS.labels(QUERY).inc(repeats)
    STREAM_CONFLICTS.labels(QUERY).inc(conflicts)
    if generation.catching_up:
        read: dict[str, dict[str, int]] = {}
        for origin in progress.sources:
            read |= json.loads(origin.endOffset or "{}")
        generation.passed(read)
