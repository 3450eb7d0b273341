"""The updates layer of a layered table: small appends, in rounds, so that compaction takes whole rounds and no more.

A round is a partition of the updates layer (its negative number stands in the bucket column). Compaction closes the
round that is open, folds it into the primary layer and removes just its files: what is appended meanwhile is in the
next round, a partition that the compaction's commit does not name, so the two neither lose a row of one another nor
conflict.
"""

from __future__ import annotations

import threading

import pyarrow as pa

from lily_spark.config import SparkSettings
from lily_spark.layered import UPDATES, Layered
from lily_spark.sinks.delta import Appender
from lily_spark.tables import open_table


class UpdatesLayer:
    """Appends rows to the open round. Thread-safe."""

    def __init__(self, settings: SparkSettings, layered: Layered) -> None:
        self.layered = layered
        self._appender = Appender(layered.table, settings)
        self._lock = threading.Lock()
        self._round = 1 + max(rounds(settings, layered), default=0)
        self._files = 0

    def append(self, rows: pa.Table, transaction: tuple[str, int] | None = None) -> None:
        """Commit `rows` (their layer and bucket are set here); none: no commit. `transaction` as `Appender` has it.

        A column that `rows` have not is null in all of them.
        """
        if not rows.num_rows:
            return
        with self._lock:
            rows = _with(rows, self.layered.layer, pa.array([UPDATES] * rows.num_rows, pa.string()))
            number = pa.array([-self._round] * rows.num_rows, pa.int32())
            rows = _with(rows, self.layered.bucket, number)
            for field in self.layered.table.schema:
                if field.name not in rows.column_names:
                    rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
            self._appender.append(rows, transaction)
            self._files += 1

    @property
    def files(self) -> int:
        """Commits in the open round."""
        return self._files

    def close_round(self) -> int:
        """Open the next round; returns the number of the one that is closed now: nothing is added to it any more."""
        with self._lock:
            closed = self._round
            self._round += 1
            self._files = 0
            return closed


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
