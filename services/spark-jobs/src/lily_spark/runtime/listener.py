"""Turns Spark's progress reports into Lily's metrics and tells the supervisor that a query lives."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from lily_common.logs import get_logger
from lily_common.metrics import STREAM_BATCH_SECONDS, STREAM_LAG, STREAM_ROWS

log = get_logger(__name__)
OnProgress = Callable[[StreamingQueryProgress], None]


class Listener(StreamingQueryListener):
    """Calls each of `observers` with every progress report, on the listener bus's own thread."""

    def __init__(self, *observers: OnProgress) -> None:
        self._observers = (record_metrics, *observers)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  (Spark's name)
        """Nothing: a query that has started has not yet shown that it works."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        for observe in self._observers:
            try:
                observe(event.progress)
            except Exception:
                # An observer's fault must not cost the others their report, nor the listener bus its thread.
                log.exception("progress observer failed")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing new to read is no news."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """The supervisor sees it and has the reason."""


def record_metrics(progress: StreamingQueryProgress) -> None:
    name = progress.name or "unnamed"
    STREAM_ROWS.labels(name).inc(progress.numInputRows)
    STREAM_BATCH_SECONDS.labels(name).observe(progress.batchDuration / 1000)
    STREAM_LAG.labels(name).set(
        sum(_behind(source.endOffset, source.latestOffset) for source in progress.sources)
    )


def _behind(end: str | None, latest: str | None) -> int:
    """Messages between two Kafka offset maps `{"topic": {"partition": offset}}`."""
    read, held = _offsets(end), _offsets(latest)
    return sum(max(0, held[key] - read.get(key, 0)) for key in held)


def _offsets(text: str | None) -> dict[tuple[str, str], int]:
    parsed: Any = json.loads(text) if text and text != "null" else None
    if not isinstance(parsed, dict):
        return {}
    return {
        (topic, partition): int(offset)
        for topic, partitions in parsed.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
    }
