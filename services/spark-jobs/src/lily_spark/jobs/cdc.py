"""The query of change data: every topic of a captured table into its own table of the lake, latest row by key."""

from __future__ import annotations

from functools import partial

from pyspark.sql.streaming.query import StreamingQuery

from lily_spark.cdc.refusals import QUERY
from lily_spark.cdc.registry import CdcTables
from lily_spark.cdc.sink import CdcSink
from lily_spark.cdc.topics import PATTERN
from lily_spark.runtime.app import Application
from lily_spark.sources import kafka as source


def add(app: Application) -> CdcTables:
    """Start the query and keep it running; returns its tables, for upkeep."""
    tables = CdcTables(app.spark, app.settings)
    sink = CdcSink(app.spark, app.settings, tables)
    app.queries.add(QUERY, partial(_start, app, sink))
    return tables


def _start(app: Application, sink: CdcSink) -> StreamingQuery:
    settings = app.settings
    checkpoint = settings.checkpoint("lake", QUERY)
    sink.settle(checkpoint)
    changes = source.stream_of_pattern(
        app.spark, settings, PATTERN, rows_per_batch=settings.cdc_rows_per_batch
    )
    return (
        changes.writeStream.queryName(QUERY)
        .foreachBatch(sink.write)
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime=f"{settings.cdc_trigger_ms} milliseconds")
        .start()
    )
