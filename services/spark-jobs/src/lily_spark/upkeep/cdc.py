"""Upkeep of the tables of change data: found, compacted when due, given more buckets as they grow, mirrored as chosen."""

from __future__ import annotations

import time
from collections.abc import Iterator

from pyspark.sql import SparkSession

from lily_common.logs import get_logger
from lily_spark.cdc.fill import Filling
from lily_spark.cdc.mirror import CdcMirror
from lily_spark.cdc.registry import CdcTable, CdcTables
from lily_spark.cdc.sources import Sources
from lily_spark.config import SparkSettings
from lily_spark.layered import PRIMARY
from lily_spark.sinks.layers import files
from lily_spark.tables import open_table
from lily_spark.upkeep.compaction import compact
from lily_spark.upkeep.task import Task

log = get_logger(__name__)
_FIND_SECONDS = 600.0
_PIECE_SECONDS = 1.0
_MIRROR_SECONDS = 5.0


class CdcUpkeep:
    """Used by the upkeep thread. Every piece of work is about one table."""

    def __init__(self, spark: SparkSession, settings: SparkSettings, tables: CdcTables) -> None:
        self._spark = spark
        self._settings = settings
        self._tables = tables
        self._finding: Iterator[CdcTable] | None = tables.discover()
        self._filling = Filling(
            spark, settings, tables, CdcMirror(settings), Sources(settings.kafka_bootstrap)
        )

    def tasks(self) -> list[Task]:
        return [
            Task("find change data", _FIND_SECONDS, self._find, lambda: self._finding is not None),
            Task("compact change data", 3600.0, self._compact_next, lambda: self._next() is not None),
            Task("mirror change data", _MIRROR_SECONDS, self._filling.piece, self._filling.pending),
        ]

    def paths(self) -> list[str]:
        """Of every table that is known, for housekeeping."""
        return [table.capture.path for table in self._tables.known()]

    def _find(self) -> None:
        """Open tables for a second; those of before a restart wait for compaction as any other."""
        self._finding = self._finding or self._tables.discover()
        deadline = time.monotonic() + _PIECE_SECONDS
        for _ in self._finding:
            if time.monotonic() > deadline:
                return
        self._finding = None

    def _compact_next(self) -> None:
        table = self._next()
        if table is not None:
            self._compact(table)

    def _compact(self, table: CdcTable) -> None:
        with table.lock:
            compact(self._spark, self._settings, table.updates)
        if self._outgrown(table):
            self._tables.double_buckets(table)

    def _next(self) -> CdcTable | None:
        """Of the tables whose compaction is due the one that has waited longest."""
        now = time.monotonic()
        due = [table for table in self._tables.known() if self._is_due(table, now)]
        return min(due, key=lambda table: table.updates.waiting.since or now, default=None)

    def _is_due(self, table: CdcTable, now: float) -> bool:
        waiting = table.updates.waiting
        if waiting.since is None:
            return False
        return (
            now - waiting.since >= self._settings.compact_seconds
            or waiting.files >= self._settings.compact_files
            or waiting.bytes >= self._settings.compact_bytes
        )

    def _outgrown(self, table: CdcTable) -> bool:
        held = files(open_table(table.layered.table, self._settings), table.layered)
        primary = sum(file.bytes for file in held if file.layer == PRIMARY)
        return primary > self._settings.cdc_bucket_bytes * table.layered.buckets
