"""Progress of streaming queries: read from Spark at each tick, made into metrics, told to whoever watches.

PySpark's own listener turns a report into Python objects by hundreds of calls across the process boundary; it took a
seventh of a second of CPU time a batch. A query's last report as one JSON text costs a thousandth.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from lily_common.logs import get_logger
from lily_common.metrics import STREAM_BATCH_SECONDS, STREAM_LAG, STREAM_ROWS

log = get_logger(__name__)
#: Spark's progress report, decoded: batchId, numInputRows, durationMs, sources, …
Report = dict[str, Any]
Observer = Callable[[str, Report], None]


class Progress:
    """Reads reports of queries and gives each one once to `observers`, with the query's name."""

    def __init__(self) -> None:
        self._observers: list[Observer] = [_record]
        self._last: dict[str, tuple[str, str]] = {}

    def observe(self, observer: Observer) -> None:
        self._observers.append(observer)

    def read(self, name: str, query: StreamingQuery) -> bool:
        """Report what is new of `query`; returns whether anything was."""
        fresh = [
            report
            for report in _recent(query)
            if (report["runId"], report["timestamp"]) > self._seen(name, query)
        ]
        for report in fresh:
            self._last[name] = (report["runId"], report["timestamp"])
            for observer in self._observers:
                observer(name, report)
        return bool(fresh)

    def _seen(self, name: str, query: StreamingQuery) -> tuple[str, str]:
        run, stamp = self._last.get(name, ("", ""))
        return (run, stamp) if run == str(query.runId) else (str(query.runId), "")


def _recent(query: StreamingQuery) -> list[Report]:
    """The reports that Spark still holds, oldest first: those of the last ticks."""
    return [json.loads(report.json()) for report in query._jsq.recentProgress()]


def _record(name: str, report: Report) -> None:
    STREAM_ROWS.labels(name).inc(report["numInputRows"])
    STREAM_LAG.labels(name).set(sum(_behind(source) for source in report["sources"]))
    if report["numInputRows"]:
        log.debug("batch", query=name, rows=report["numInputRows"], milliseconds=report.get("durationMs"))
        STREAM_BATCH_SECONDS.labels(name).observe(report["batchDuration"] / 1000)


def _behind(source: dict[str, Any]) -> int:
    """Messages that the source holds and the query had not read at the end of the batch."""
    read, held = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    return sum(max(0, held[place] - read.get(place, 0)) for place in held)


def _offsets(found: Any) -> dict[tuple[str, str], int]:
    """Kafka's `{"topic": {"partition": offset}}` by place; empty for what is not of that form."""
    if not isinstance(found, dict):
        return {}
    return {
        (topic, partition): int(offset)
        for topic, partitions in found.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
    }
