"""Keeps streaming queries running: starts them, restarts the dead in place, and says which are ready."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lily_common.logs import get_logger
from lily_common.metrics import STREAM_RESTARTS
from lily_spark.runtime.progress import Progress

log = get_logger(__name__)

#: A query that fails this often without one batch in between ends the process, so that it starts afresh.
MAX_FAILURES = 6
_MAX_BACKOFF = 10.0


class QueryFailedError(Exception):
    """A query cannot be kept running; the process should exit with a failure."""


@dataclass
class Supervised:
    """One query under supervision. `start` starts it from its checkpoint and returns at once."""

    name: str
    start: Callable[[], StreamingQuery]
    query: StreamingQuery | None = None
    failures: int = 0
    ready: bool = False  # since its last start it ran tasks, or found nothing new to read
    not_before: float = 0.0


class Queries:
    """The queries of one application, for its one supervising thread."""

    def __init__(self, spark: SparkSession) -> None:
        self.progress = Progress()
        self._spark = spark
        self._held: dict[str, Supervised] = {}

    def add(self, name: str, start: Callable[[], StreamingQuery]) -> None:
        """Start `name` now and keep it running from here on."""
        supervised = Supervised(name, start)
        self._held[name] = supervised
        self._start(supervised)

    def ready(self) -> dict[str, str]:
        """Readiness by query: "ok", or what it is at. Any thread may ask."""
        return {name: "ok" if held.ready else "starting" for name, held in self._held.items()}

    def restart_at(self, name: str, delay: float) -> None:
        """Stop `name` and start it again `delay` seconds from now."""
        held = self._held[name]
        _stop(held)
        held.not_before = time.monotonic() + delay

    def check(self) -> None:
        """Read progress and restart what is down. Raises QueryFailedError when a query fails again and again."""
        for held in self._held.values():
            if held.query is not None:
                self._watch(held, held.query)
            if held.query is None and time.monotonic() >= held.not_before:
                self._start(held)

    def stop(self, *, after_batch: bool) -> None:
        """Stop every query; with `after_batch` each is given time to end the batch it is in."""
        for held in self._held.values():
            if held.query is not None and after_batch:
                _await_idle(held.query)
            _stop(held)

    def _watch(self, held: Supervised, query: StreamingQuery) -> None:
        if self.progress.read(held.name, query):
            held.failures = 0
            held.ready = True
        if not query.isActive:
            held.query = None
            self._failed(held, str(query.exception() or "stopped from outside"))
        elif not held.ready:
            held.ready = _waits(query) or self._has_tasks(query)

    def _start(self, held: Supervised) -> None:
        # A pool per query: what one of them has to do never queues up before another's tasks.
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", held.name)
        try:
            held.query = held.start()
        except Exception as refused:
            # Starting reads tables and asks Kafka: whatever is wrong there may be right again soon.
            self._failed(held, f"{type(refused).__name__}: {refused}")
        else:
            log.info("query started", query=held.name, run=str(held.query.runId))

    def _failed(self, held: Supervised, reason: str) -> None:
        held.failures += 1
        held.ready = False
        STREAM_RESTARTS.labels(held.name).inc()
        log.error("query died", query=held.name, failures=held.failures, reason=_essence(reason))
        if held.failures >= MAX_FAILURES:
            raise QueryFailedError(f"{held.name} failed {held.failures} times: {_essence(reason)[-300:]}")
        # The first restart is immediate: one death out of the blue should cost as little as it can.
        held.not_before = time.monotonic() + min(_MAX_BACKOFF, 0.5 * 2**held.failures - 1)

    def _has_tasks(self, query: StreamingQuery) -> bool:
        """A query's job group is its run id; a task of it that runs has its sources open."""
        tracker = self._spark.sparkContext.statusTracker()
        for job in tracker.getJobIdsForGroup(str(query.runId)):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                stage_info = tracker.getStageInfo(stage)
                if stage_info and (stage_info.numActiveTasks or stage_info.numCompletedTasks):
                    return True
        return False


def _essence(reason: str) -> str:
    """The failure without the logical plan that Spark appends, which is long and helps nobody in a log."""
    return reason.split("=== Streaming Query ===", maxsplit=1)[0][-3000:]


def _waits(query: StreamingQuery) -> bool:
    """Idle with open sources: it has asked Kafka for offsets, and there is nothing new."""
    return str(query.status.get("message", "")).startswith("Waiting for")


def _stop(held: Supervised) -> None:
    query, held.query, held.ready = held.query, None, False
    if query is None:
        return
    try:
        query.stop()
    except PySparkException as late:
        log.warning("query did not stop in time", query=held.name, reason=str(late)[:500])


def _await_idle(query: StreamingQuery, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while query.isActive and query.status.get("isTriggerActive") and time.monotonic() < deadline:
        time.sleep(0.01)
