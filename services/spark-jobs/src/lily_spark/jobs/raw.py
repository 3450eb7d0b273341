"""The raw query: each request as it came, from `lily.raw` into bronze.raw, at least once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from lily_common.events import RAW_TOPIC
from lily_spark.erasing import gate
from lily_spark.runtime.app import Application
from lily_spark.sinks.delta import Appender
from lily_spark.sources import kafka as source
from lily_spark.tables import RAW
from lily_spark.transforms.raw import raw_rows

QUERY = "raw"


def add(app: Application) -> None:
    """Start the query and keep it running. A batch that is given again is archived again."""
    appender = Appender(RAW, app.settings)

    def write(batch: DataFrame, _batch_id: int) -> None:
        appender.append(gate.pass_requests(batch.toArrow(), gate.current()))

    app.queries.add(QUERY, partial(_start, app, write))


def _start(app: Application, write: Callable[[DataFrame, int], None]) -> StreamingQuery:
    settings = app.settings
    requests = source.stream(
        app.spark, settings, RAW_TOPIC, rows_per_batch=settings.raw_rows_per_batch, headers=True
    )
    return (
        raw_rows(requests)
        .writeStream.queryName(QUERY)
        .foreachBatch(write)
        .option("checkpointLocation", str(settings.checkpoint("lake", QUERY)))
        .trigger(processingTime=f"{settings.raw_trigger_ms} milliseconds")
        .start()
    )
