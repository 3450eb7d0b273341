"""Small appends to Delta tables, each at most once per (query, generation, batch).

A micro-batch holds some hundred rows. Writing them as a Spark job costs a second of CPU time, nearly all of it
planning and rebuilding Delta's own state; the deltalake library does the same commit, by the same protocol and with
the same transaction id, in some ten milliseconds. Spark does what is large: compaction, merges, reads.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake

from lily_spark.config import SparkSettings
from lily_spark.tables import Table, open_table

_WRITER = WriterProperties(compression="ZSTD")


@dataclass(frozen=True)
class Turn:
    """One micro-batch of one query since its checkpoint began.

    `generation` names the life of the checkpoint. Without it, the batch ids of a fresh checkpoint would look like
    old ones, and their appends would be skipped in silence.
    """

    query: str
    generation: str
    batch: int

    @property
    def app_id(self) -> str:
        return f"lily/{self.query}/{self.generation}"


class Appender:
    """Appends to one table. Holds the table's log in memory, hence one per table and process; thread-safe."""

    def __init__(self, table: Table, settings: SparkSettings) -> None:
        self._table = table
        self._settings = settings
        self._open: DeltaTable | None = None
        self._lock = threading.Lock()

    def append(self, rows: pa.Table, turn: Turn) -> bool:
        """Append `rows`, unless this turn or a later one of its generation was appended before.

        Returns whether a commit was made. Raises when the store cannot be reached, or another process appends
        under the same generation at the same time.
        """
        with self._lock:
            table = self._open or open_table(self._table, self._settings)
            self._open = None  # after a failure the table is opened afresh
            done = table.transaction_version(turn.app_id)
            fresh = done is None or done < turn.batch
            if fresh and rows.num_rows:
                self._commit(table, rows.select(self._table.columns).cast(self._table.schema), turn)
            self._open = table
            return fresh

    def last_turn(self, app_id: str) -> int | None:
        """The last batch that `app_id` has committed, None when there is none."""
        with self._lock:
            self._open = open_table(self._table, self._settings)
            return self._open.transaction_version(app_id)

    @staticmethod
    def _commit(table: DeltaTable, rows: pa.Table, turn: Turn) -> None:
        properties = CommitProperties(
            app_transactions=[Transaction(turn.app_id, turn.batch)],
            # What makes the append invisible to the conflict check of a Spark commit that runs meanwhile.
            custom_metadata={"isBlindAppend": True},
        )
        write_deltalake(table, rows, mode="append", writer_properties=_WRITER, commit_properties=properties)
