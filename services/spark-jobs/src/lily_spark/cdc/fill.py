"""Brings the mirror in line with what tenants have chosen: fills it from the lake, bucket by bucket, and takes out the rest.

What is read and what the query writes meanwhile may cross: each document is written only over what is no newer.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lily_common.logs import get_logger
from lily_spark.cdc.mirror import CdcMirror, noted
from lily_spark.cdc.registry import CdcTable, CdcTables
from lily_spark.cdc.sources import MirroredTable, Sources
from lily_spark.cdc.tables import newest
from lily_spark.cdc.topics import Capture
from lily_spark.config import SparkSettings
from lily_spark.layered import by_bucket

log = get_logger(__name__)


class Filling:
    """Used by the upkeep thread; `piece` does one bucket of one table."""

    def __init__(
        self,
        spark: SparkSession,
        settings: SparkSettings,
        tables: CdcTables,
        mirror: CdcMirror,
        sources: Sources,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._tables = tables
        self._mirror = mirror
        self._sources = sources
        self._at_work: Iterator[int] | None = None

    def pending(self) -> bool:
        """Whether a table is half filled."""
        return self._at_work is not None

    def piece(self) -> None:
        """One bucket, or a look at what is chosen. After a failure the table is filled from its start."""
        if self._at_work is None:
            self._at_work = self._next()
        try:
            if self._at_work is not None and next(self._at_work, None) is None:
                self._at_work = None
        except Exception:
            self._at_work = None
            raise

    def _next(self) -> Iterator[int] | None:
        wanted = self._wanted()
        filled = self._mirror.filled()
        for topic in filled.keys() - wanted.keys():
            self._mirror.drop(topic)
            log.info("mirror dropped", topic=topic)
        for topic, (table, chosen) in wanted.items():
            held = {name: value for name, value in filled.get(topic, {}).items() if name != "_id"}
            if held != noted(chosen):
                return self._fill(table, chosen)
        return None

    def _wanted(self) -> dict[str, tuple[CdcTable, MirroredTable]]:
        """Topic -> table and choice, of the tables that are there."""
        found: dict[str, tuple[CdcTable, MirroredTable]] = {}
        for source in self._sources.current().values():
            for name, chosen in source.mirror.items():
                table = self._tables.get(Capture(source.tenant, source.source, name))
                if table is not None:
                    found[table.capture.topic] = (table, chosen)
        return found

    def _fill(self, table: CdcTable, chosen: MirroredTable) -> Iterator[int]:
        rows = 0
        for number, held in enumerate(by_bucket(self._spark, self._settings, table.layered), 1):
            found = newest(held, table.key).where("NOT __deleted")
            if chosen.ttl_days is not None:
                oldest = datetime.now(UTC) - timedelta(days=chosen.ttl_days)
                found = found.where(F.coalesce("__source_time", "__time") > F.lit(oldest))
            rows += self._mirror.write(table.capture, chosen, found.toArrow(), table.key, over="$lte")
            yield number
        self._mirror.note(table.capture, chosen)
        log.info("mirror filled", topic=table.capture.topic, rows=rows)
