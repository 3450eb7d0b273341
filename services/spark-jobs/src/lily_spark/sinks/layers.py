"""The updates layer of silver.assets: small appends, in rounds, so that compaction takes whole rounds and no more.

A round is a partition of the updates layer (its negative number stands in `bucket`). Compaction closes the round that
is open, folds it into the primary layer and removes just its files: what is appended meanwhile is in the next round,
a partition that the compaction's commit does not name, so the two neither lose a row of one another nor conflict.
"""

from __future__ import annotations

import threading

import pyarrow as pa

from lily_spark.config import SparkSettings
from lily_spark.sinks.delta import Appender
from lily_spark.tables import ASSETS, open_table


class UpdatesLayer:
    """Appends register rows to the open round. Thread-safe."""

    def __init__(self, settings: SparkSettings) -> None:
        self._appender = Appender(ASSETS, settings)
        self._lock = threading.Lock()
        self._round = 1 + max(rounds(settings), default=0)
        self._files = 0

    def append(self, rows: pa.Table) -> None:
        """Commit rows of silver.assets (their `bucket` is set here); none: no commit."""
        if not rows.num_rows:
            return
        with self._lock:
            place = rows.column_names.index("bucket")
            number = pa.array([-self._round] * rows.num_rows, pa.int32())
            self._appender.append(rows.set_column(place, "bucket", number))
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


def rounds(settings: SparkSettings) -> set[int]:
    """Numbers of the rounds that the table holds."""
    table = open_table(ASSETS, settings)
    return {
        -int(partition["bucket"]) for partition in table.partitions() if partition.get("layer") == "updates"
    }
