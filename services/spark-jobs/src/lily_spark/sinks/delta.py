"""Small appends to Delta tables.

A micro-batch holds some hundred rows. Writing them as a Spark job costs a second of CPU time, nearly all of it
planning and rebuilding Delta's own state; the deltalake library makes the same commit, by the same protocol, in
some ten milliseconds. Spark does what is large: compaction, merges, reads.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake

from lily_spark.config import SparkSettings
from lily_spark.tables import Table, open_table

_WRITER = WriterProperties(compression="ZSTD")


class Appender:
    """Appends to one table. Holds the table's log in memory, hence one per table and process; thread-safe."""

    def __init__(self, table: Table, settings: SparkSettings) -> None:
        self._table = table
        self._settings = settings
        self._open: DeltaTable | None = None
        self._lock = threading.Lock()

    def append(self, rows: pa.Table, transaction: tuple[str, int] | None = None) -> None:
        """Commit `rows` (none: no commit), carrying `transaction` (application id, version) when one is given.

        The version is for `last_version` to read; it is not compared here. Two writers that commit under one
        application id at the same time fail, but for the first.
        """
        if rows.num_rows:
            self.commit(rows, dict([transaction] if transaction else []))

    def commit(self, rows: pa.Table, transactions: Mapping[str, int]) -> None:
        """Commit `rows`, which may be none, and `transactions` (application id -> version)."""
        properties = _properties(transactions)
        with self._lock:
            table = self._open or open_table(self._table, self._settings)
            self._open = None  # after a failure the table is opened afresh
            if rows.num_rows:
                write_deltalake(
                    table,
                    rows.select(self._table.columns).cast(self._table.schema),
                    mode="append",
                    writer_properties=_WRITER,
                    commit_properties=properties,
                )
            else:
                table.create_write_transaction(
                    [], "append", table.schema(), list(self._table.partitions), commit_properties=properties
                )
                table.update_incremental()  # unlike a write, this leaves the table as it was opened
            self._open = table

    def last_version(self, app_id: str) -> int | None:
        """The version of the last commit under `app_id`; None when there is none."""
        with self._lock:
            self._open = open_table(self._table, self._settings)
            return self._open.transaction_version(app_id)


def _properties(transactions: Mapping[str, int]) -> CommitProperties:
    return CommitProperties(
        app_transactions=[Transaction(*each) for each in transactions.items()] or None,
        # What makes the append invisible to the conflict check of a Spark commit that runs meanwhile.
        custom_metadata={"isBlindAppend": True},
    )
