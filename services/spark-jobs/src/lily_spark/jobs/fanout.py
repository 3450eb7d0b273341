"""The fan-out application: changes worth telling, from `lily.changes.priority` to `lily.notices`, in milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql.streaming.query import StreamingQuery

from lily_common.events import NOTICES_TOPIC, PRIORITY_TOPIC
from lily_spark.config import SparkSettings
from lily_spark.runtime.app import Application, run
from lily_spark.runtime.hedge import Stagger
from lily_spark.runtime.kafka import wait_for_topics
from lily_spark.session import App
from lily_spark.sinks import kafka as sink
from lily_spark.sources import kafka as source
from lily_spark.transforms.notices import notices

PAIR = ("fanout-a", "fanout-b")


def main(settings: SparkSettings) -> int:
    """Run the hedged pair until told to stop; returns the exit code."""

    def describe(stopping: Callable[[], bool]) -> App:
        partitions = wait_for_topics(settings.kafka_bootstrap, [PRIORITY_TOPIC, NOTICES_TOPIC], stopping)
        # A Real-Time query holds a task slot per partition for good; one more than both need keeps the rest moving.
        return App("fanout", heap="512m", slots=len(PAIR) * partitions[PRIORITY_TOPIC] + 1, lake=False)

    return run(settings, describe, wire, stop_after_batch=False)


def wire(app: Application) -> None:
    """Two identical queries, each with its own checkpoint, kept half a batch apart."""
    stagger = Stagger(PAIR, app.settings.fanout_batch_seconds)
    app.queries.progress.observe(lambda name, _report: stagger.committed(name))
    for name in PAIR:
        app.queries.add(name, partial(_start, app, name))

    def keep_apart() -> None:
        if moved := stagger.take():
            app.queries.restart_at(*moved)

    app.each_tick.append(keep_apart)


def _start(app: Application, name: str) -> StreamingQuery:
    settings = app.settings
    changes = source.stream(app.spark, settings, PRIORITY_TOPIC)
    return sink.realtime(
        notices(changes),
        settings,
        name=name,
        topic=NOTICES_TOPIC,
        checkpoint=settings.checkpoint("fanout", name),
        batch_seconds=settings.fanout_batch_seconds,
    )
