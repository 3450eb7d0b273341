"""The life of an application: session, readiness server, supervision loop, and a graceful end on SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import SparkSession

from lily_common import metrics
from lily_common.logs import get_logger
from lily_spark import session
from lily_spark.config import SparkSettings
from lily_spark.runtime.kafka import StoppedError
from lily_spark.runtime.queries import Queries, QueryFailedError

log = get_logger(__name__)
#: Seconds between two looks at the queries.
TICK = 0.2


@dataclass
class Application:
    """What a wiring function gets to work with."""

    spark: SparkSession
    settings: SparkSettings
    stopping: threading.Event
    queries: Queries
    each_tick: list[Callable[[], None]] = field(default_factory=list)
    at_stop: list[Callable[[], None]] = field(default_factory=list)
    checks: list[Callable[[], dict[str, str]]] = field(default_factory=list)


class _Readiness:
    """What /readyz answers: `starting` until the application is wired, then each check's own word."""

    def __init__(self) -> None:
        self.application: Application | None = None

    def __call__(self) -> dict[str, str]:
        if self.application is None:
            return {"application": "starting"}
        answers = {"application": "ok"} | self.application.queries.ready()
        for check in self.application.checks:
            answers |= check()
        return answers


def run(
    settings: SparkSettings,
    describe: Callable[[Callable[[], bool]], session.App],
    wire: Callable[[Application], None],
    *,
    stop_after_batch: bool,
) -> int:
    """Run until SIGTERM or SIGINT (0) or until a query cannot be kept running (1); returns the exit code.

    `describe` may wait for servers (it gets a function that says whether to give up) and says what session to
    build; `wire` adds the queries.
    """
    stopping = threading.Event()
    _on_signal(stopping)
    readiness = _Readiness()
    server = metrics.serve(settings.metrics_port, readiness) if settings.metrics_port else None
    try:
        spark = session.build(settings, describe(stopping.is_set))
        _on_signal(stopping)  # again: PySpark has put its own handler for SIGINT
        try:
            application = Application(spark, settings, stopping, Queries(spark))
            return _supervise(application, wire, readiness, stop_after_batch)
        finally:
            spark.stop()
            log.info("stopped")
    except StoppedError:
        return 0
    except (PySparkException, Py4JError) as failed:
        log.exception("failed", reason=str(failed)[:4000])
        return 1
    finally:
        if server is not None:
            server.shutdown()


def _supervise(
    application: Application,
    wire: Callable[[Application], None],
    readiness: _Readiness,
    stop_after_batch: bool,
) -> int:
    stopping = application.stopping
    wire(application)
    readiness.application = application
    log.info("application wired")
    try:
        while not stopping.wait(TICK):
            application.queries.check()
            for action in application.each_tick:
                action()
    except QueryFailedError as failed:
        log.error("giving up", reason=str(failed))
        return 1
    finally:
        stopping.set()
        log.info("stopping")
        for action in application.at_stop:
            action()
        application.queries.stop(after_batch=stop_after_batch)
    return 0


def _on_signal(stopping: threading.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
