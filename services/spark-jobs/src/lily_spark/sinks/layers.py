"""The updates layer of a layered table: small appends, in rounds, so that compaction takes whole rounds and no more.

A round is a partition of the updates layer (its negative number stands in the bucket column). Compaction closes the
round that is open, folds it into the primary layer and removes just its files: what is appended meanwhile is in the
next round, a partition that the compaction's commit does not name, so the two neither lose a row of one another nor
conflict.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable

from lily_spark.config import SparkSettings
from lily_spark.layered import UPDATES, Layered
from lily_spark.sinks.delta import Appender
from lily_spark.tables import open_table


@dataclass(frozen=True)
class Waiting:
    """What the updates layer holds that no compaction has taken. `since` is of `time.monotonic`, None when nothing waits."""

    files: int = 0
    bytes: int = 0
    since: float | None = None


class UpdatesLayer:
    """Appends rows to the open round. Thread-safe."""

    def __init__(self, settings: SparkSettings, layered: Layered) -> None:
        self.layered = layered
        self._settings = settings
        self._appender = Appender(layered.table, settings)
        self._lock = threading.Lock()
        held = files(open_table(layered.table, settings), layered)
        rounds = [file for file in held if file.layer == UPDATES]
        self._round = 1 + max((-file.bucket for file in rounds), default=0)
        self._files = 0
        self._waiting = (
            Waiting(len(rounds), sum(file.bytes for file in rounds), time.monotonic())
            if rounds
            else Waiting()
        )

    def append(self, rows: pa.Table, transaction: tuple[str, int] | None = None) -> None:
        """Commit `rows` (their layer and bucket are set here); none: no commit. `transaction` as `Appender` has it.

        A column that `rows` have not is null in all of them.
        """
        if rows.num_rows:
            self.commit(rows, dict([transaction] if transaction else []))

    def commit(self, rows: pa.Table, transactions: Mapping[str, int]) -> None:
        """As `append`, with any number of transactions, and also without rows."""
        with self._lock:
            rows = _with(rows, self.layered.layer, pa.array([UPDATES] * rows.num_rows, pa.string()))
            number = pa.array([-self._round] * rows.num_rows, pa.int32())
            rows = _with(rows, self.layered.bucket, number)
            for field in self.layered.table.schema:
                if field.name not in rows.column_names:
                    rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
            self._appender.commit(rows, transactions)
            if not rows.num_rows:
                return
            self._files += 1
            waiting = self._waiting
            self._waiting = Waiting(
                waiting.files + 1, waiting.bytes + rows.nbytes, waiting.since or time.monotonic()
            )

    @property
    def files(self) -> int:
        """Commits in the open round."""
        return self._files

    @property
    def waiting(self) -> Waiting:
        """What a compaction would take now, rounds of an earlier process included; bytes are those in memory."""
        return self._waiting

    def change(self, layered: Layered) -> None:
        """Go on with other columns or another number of buckets, which the table has by now; opens the next round."""
        with self._lock:
            self.layered = layered
            self._appender = Appender(layered.table, self._settings)
            self._round += 1

    def emptied(self) -> None:
        """A rewrite took all that waited."""
        with self._lock:
            self._files = 0
            self._waiting = Waiting()

    def close_round(self) -> int:
        """Open the next round; returns the number of the one that is closed now: nothing is added to it any more."""
        with self._lock:
            closed = self._round
            self._round += 1
            self._files = 0
            self._waiting = Waiting()
            return closed


@dataclass(frozen=True)
class File:
    """One data file of a layered table."""

    layer: str
    bucket: int
    bytes: int


def files(table: DeltaTable, layered: Layered) -> list[File]:
    """The files of the table as it was opened."""
    actions = pa.table(table.get_add_actions(flatten=True))
    columns = (
        actions[name].to_pylist()
        for name in (f"partition.{layered.layer}", f"partition.{layered.bucket}", "size_bytes")
    )
    return [File(str(layer), int(bucket), int(size)) for layer, bucket, size in zip(*columns, strict=True)]


def rounds(settings: SparkSettings, layered: Layered) -> set[int]:
    """Numbers of the rounds that the table holds."""
    table = open_table(layered.table, settings)
    return {
        -int(partition[layered.bucket])
        for partition in table.partitions()
        if partition.get(layered.layer) == UPDATES
    }


def _with(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """`rows` with the column `name`, in place of one of that name."""
    place = rows.column_names.index(name) if name in rows.column_names else rows.num_columns
    without = rows.drop_columns([name]) if name in rows.column_names else rows
    return without.add_column(place, name, values)
