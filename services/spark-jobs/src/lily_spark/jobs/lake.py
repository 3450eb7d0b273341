"""The lake application: the owner of the Delta tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lily_common.events import (
    BULK_TOPIC,
    PRIORITY_TOPIC,
    RAW_TOPIC,
    REPLAY_PROGRESS_TOPIC,
    REPLAYS_TOPIC,
)
from lily_spark import evolution, layered, tables
from lily_spark.config import SparkSettings
from lily_spark.enrichment.worker import Enricher
from lily_spark.erasing.job import Erasing
from lily_spark.gold.worker import GoldWorker
from lily_spark.jobs import cdc, events, mirror, raw, replay
from lily_spark.propagation.worker import Propagator
from lily_spark.runtime.app import Application, run
from lily_spark.runtime.kafka import wait_for_topics
from lily_spark.session import App
from lily_spark.sinks.lake import EventSink
from lily_spark.sinks.layers import UpdatesLayer
from lily_spark.upkeep.cdc import CdcUpkeep
from lily_spark.upkeep.worker import Upkeep


def main(settings: SparkSettings) -> int:
    """Run the lake until told to stop; returns the exit code."""

    def describe(stopping: Callable[[], bool]) -> App:
        topics = [PRIORITY_TOPIC, BULK_TOPIC, RAW_TOPIC, REPLAYS_TOPIC, REPLAY_PROGRESS_TOPIC]
        wait_for_topics(settings.kafka_bootstrap, topics, stopping)
        return App("lake", heap="1g", slots=4, lake=True)

    return run(settings, describe, wire, stop_after_batch=True)


def wire(app: Application) -> None:
    settings = app.settings
    for table in tables.ALL:
        evolution.evolve(table, settings)
    evolution.number_events(settings)
    updates = UpdatesLayer(settings, layered.assets(settings))
    propagator = Propagator(settings)
    enricher = Enricher(settings)

    def appended() -> None:
        propagator.wake()
        enricher.wake()

    def forget() -> None:
        propagator.forget()
        enricher.forget()

    sink = EventSink(settings, updates, appended=appended)
    upkeep = Upkeep(app.spark, settings, updates)
    mirror.add(app)
    app.queries.add("events", partial(events.start, app, sink))
    raw.add(app)
    changes = CdcUpkeep(app.spark, settings, cdc.add(app))
    upkeep.add(*changes.tasks())
    upkeep.housekeeping.register(changes.paths)
    replay.add(app, upkeep)
    upkeep.add(Erasing(app.spark, settings, upkeep.housekeeping.paths, forget).task())
    upkeep.handle("preview_propagation", propagator.preview)
    gold = GoldWorker(app.spark, settings)
    for command, handler in gold.handlers.items():
        upkeep.handle(command, handler)
    upkeep.housekeeping.register(gold.paths)
    upkeep.start()
    gold.start()
    propagator.start()
    enricher.start()
    app.at_stop += [enricher.stop, propagator.stop, gold.stop, upkeep.stop]
