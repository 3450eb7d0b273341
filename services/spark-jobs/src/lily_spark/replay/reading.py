"""Bronze as a stream: events in order, a bounded span of commits at a time, from the table's newest version.

A place in the stream is an event's own (commit, topic, partition, offset), not a file's or a table version's: merging
files, sorting them and VACUUM change nothing for who reads on from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from lily_common.envelope import rfc3339
from lily_spark.config import SparkSettings
from lily_spark.replay.request import Position, Request
from lily_spark.replay.spans import FileRange, span_end
from lily_spark.tables import COMMITS, EVENTS, open_table

#: Events in memory at a time, about.
ROWS = 4_000
_COLUMNS = ["commit", "topic", "partition", "offset", "subject", "accepted_time", "event"]
_LAST = chr(0x10FFFF)


class Past(NamedTuple):
    """An event of the stream."""

    position: Position
    subject: str
    accepted: datetime
    event: str


@dataclass(frozen=True)
class Span:
    """Events in order. `end` is the place behind them, and behind whatever of the span was not asked for."""

    events: list[Past]
    end: Position


class EventLog:
    """Reads bronze.events. Holds the table's log in memory; for one thread."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._open: DeltaTable | None = None

    def last_commit(self) -> int:
        """The number of the last commit that is there now; 0 when there is none yet."""
        return self._current().transaction_version(COMMITS) or 0

    def read(self, wanted: Request, after: Position, through: int, rows: int = ROWS) -> Span | None:
        """The next events behind `after`, of commits up to `through`; None when there are no more.

        A span may be empty although more follow. Raises DeltaError or OSError when the lake does not answer.
        """
        try:
            return self._read(wanted, after, through, rows)
        except (DeltaError, OSError):
            self._open = None
            raise

    def _read(self, wanted: Request, after: Position, through: int, rows: int) -> Span | None:
        table = self._current()
        first = max(wanted.first_commit, after.commit)
        files = _files(table, wanted, first, through) if first <= through else []
        if not files:
            return None
        start = max(first, min(file.first for file in files))
        last = span_end(files, start, through, rows)
        found = pa.RecordBatchReader.from_stream(
            table.scan(columns=_COLUMNS, predicate=_predicate(wanted, start, last))
        )
        events = [event for batch in found for event in _events(batch) if event.position > after]
        events.sort(key=lambda event: event.position)
        return Span(events, Position(last + 1))

    def _current(self) -> DeltaTable:
        if self._open is None:
            self._open = open_table(EVENTS, self._settings)
        else:
            self._open.update_incremental()
        return self._open


def _files(table: DeltaTable, wanted: Request, first: int, last: int) -> list[FileRange]:
    """The files that may hold what is wanted, by the statistics in the log; without any, a file may hold all of it."""
    files = pa.table(table.get_add_actions(flatten=True))
    if not files.num_rows:
        return []
    least, greatest = pc.fill_null(files["min.commit"], 0), pc.fill_null(files["max.commit"], last)
    keep = pc.equal(files["partition.tenant"], wanted.tenant)
    keep = pc.and_(keep, pc.greater_equal(greatest, first))
    keep = pc.and_(keep, pc.less_equal(least, last))
    if wanted.since is not None:
        keep = pc.and_(keep, pc.greater_equal(files["partition.date"], wanted.since.date()))
    if wanted.until is not None:
        keep = pc.and_(keep, pc.less_equal(files["partition.date"], wanted.until.date()))
    columns = (column.filter(keep).to_pylist() for column in (least, greatest, files["num_records"]))
    return [FileRange(*row) for row in zip(*columns, strict=True)]


def _predicate(wanted: Request, first: int, last: int) -> str:
    """In the scan's SQL. Texts were checked by the API: no control characters."""
    conditions = [f"tenant = {_literal(wanted.tenant)}", f"commit >= {first}", f"commit <= {last}"]
    if wanted.since is not None:
        conditions.append(f"date >= '{wanted.since.date().isoformat()}'")
        conditions.append(f"accepted_time >= '{rfc3339(wanted.since)}'")
    if wanted.until is not None:
        conditions.append(f"date <= '{wanted.until.date().isoformat()}'")
        conditions.append(f"accepted_time < '{rfc3339(wanted.until)}'")
    if wanted.types:
        conditions.append(f"type IN ({', '.join(map(_literal, wanted.types))})")
    if wanted.assets:
        conditions.append("(" + " OR ".join(map(_asset, wanted.assets)) + ")")
    return " AND ".join(conditions)


def _asset(name: str) -> str:
    if not name.endswith("*"):
        return f"subject = {_literal(name)}"
    prefix = name.removesuffix("*")
    return f"(subject >= {_literal(prefix)} AND subject < {_literal(prefix + _LAST)})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _events(batch: Any) -> list[Past]:
    columns = [batch.column(name).to_pylist() for name in _COLUMNS]
    return [
        Past(Position(commit, topic, partition, offset), subject, accepted, event)
        for commit, topic, partition, offset, subject, accepted, event in zip(*columns, strict=True)
    ]
