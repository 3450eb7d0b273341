"""The tables of change data that this process keeps: opened when rows come or upkeep looks, found again in the lake.

What a table is stands with the table itself: its columns, its key (a property), the number of its buckets (in their
numbers). There is no second place that could disagree.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import SparkSession

from lily_common.logs import get_logger
from lily_spark.cdc.evolution import plain
from lily_spark.cdc.rewrite import rebucket, widen
from lily_spark.cdc.tables import (
    ADDED,
    BUCKETS_PROPERTY,
    KEY_PROPERTY,
    TRUNCATED_PROPERTY,
    newest,
    row_table,
)
from lily_spark.cdc.topics import FOLDER, Capture
from lily_spark.config import SparkSettings
from lily_spark.layered import PRIMARY, Layered, by_bucket, quoted
from lily_spark.sinks.layers import UpdatesLayer, files
from lily_spark.tables import open_table, storage_options

log = get_logger(__name__)


class CdcTable:
    """One table. `lock` is held by what rewrites files or changes columns; appends of rows do not need it."""

    def __init__(self, settings: SparkSettings, capture: Capture, layered: Layered) -> None:
        self.capture = capture
        self.lock = threading.Lock()
        self.updates = UpdatesLayer(settings, layered)
        self.truncated = layered.table.properties.get(TRUNCATED_PROPERTY, "")

    @property
    def layered(self) -> Layered:
        return self.updates.layered

    @property
    def key(self) -> tuple[str, ...]:
        return self.layered.hashed

    @property
    def columns(self) -> tuple[pa.Field, ...]:
        """The source's columns."""
        return tuple(field for field in self.layered.table.schema if field.name not in ADDED.names)


class CdcTables:
    """All of them, by topic. Thread-safe; the columns of one table are changed by one thread at a time."""

    def __init__(self, spark: SparkSession, settings: SparkSettings) -> None:
        self._spark = spark
        self._settings = settings
        self._open: dict[str, CdcTable] = {}
        self._lock = threading.Lock()

    def get(self, capture: Capture) -> CdcTable | None:
        """The table, opened when it is there; None when there is no such table yet."""
        with self._lock:
            found = self._open.get(capture.topic)
            if found is None:
                layered = stored(capture.path, self._settings)
                if layered is None:
                    return None
                found = self._open[capture.topic] = CdcTable(self._settings, capture, layered)
            return found

    def create(self, capture: Capture, key: Sequence[str], columns: Sequence[pa.Field]) -> CdcTable:
        layered = self._layered(capture, key, columns, self._settings.cdc_buckets)
        open_table(layered.table, self._settings)
        log.info("table of change data made", table=capture.path, key=list(key), columns=len(columns))
        with self._lock:
            made = self._open[capture.topic] = CdcTable(self._settings, capture, layered)
            return made

    def add_columns(self, table: CdcTable, added: Sequence[pa.Field]) -> None:
        """One commit, before rows that need it."""
        with table.lock:
            columns = (*table.columns, *added)
            opened = open_table(table.layered.table, self._settings)
            opened.alter.add_columns(Schema.from_arrow(pa.schema(added)).fields)
            table.updates.change(self._again(table, columns))
        log.info("columns added", table=table.capture.path, columns=[field.name for field in added])

    def widen(self, table: CdcTable, columns: Sequence[pa.Field]) -> None:
        """One commit that rewrites the table with `columns`: those that it has, of wider types, and new ones."""
        with table.lock:
            wider = self._again(table, columns)
            widen(self._spark, self._settings, wider)
            table.updates.change(wider)
            table.updates.emptied()
        log.info("columns widened", table=table.capture.path)

    def double_buckets(self, table: CdcTable) -> None:
        """One commit that rewrites the primary layer."""
        with table.lock:
            now = table.layered
            more = self._layered(table.capture, table.key, table.columns, 2 * now.buckets)
            rebucket(self._spark, self._settings, more)
            table.updates.change(more)

    def truncate(self, table: CdcTable, version: str) -> None:
        """From now on rows of older versions are not taken; those that are there are for the caller to bury."""
        if version <= table.truncated:
            return
        with table.lock:
            opened = open_table(table.layered.table, self._settings)
            opened.alter.set_table_properties({TRUNCATED_PROPERTY: version}, raise_if_not_exists=False)
            table.truncated = version
            table.updates.change(table.layered)
        log.info("table truncated", table=table.capture.path, version=version)

    def buried(self, table: CdcTable) -> Iterator[pa.Table]:
        """Tombstones, bucket by bucket, for the rows that a TRUNCATE took; none when they are buried already."""
        for rows in by_bucket(self._spark, self._settings, table.layered):
            gone = newest(rows, table.key).where(f"NOT __deleted AND __version < '{table.truncated}'")
            yield gone.selectExpr(
                *map(quoted, table.key),
                f"'{table.truncated}' AS __version",
                "'t' AS __op",
                "true AS __deleted",
                "__source_time",
                "current_timestamp() AS __time",
                "CAST(array() AS array<string>) AS __unavailable",
            ).toArrow()

    def known(self) -> list[CdcTable]:
        with self._lock:
            return list(self._open.values())

    def discover(self) -> Iterator[CdcTable]:
        """Every table of change data in the lake, opened one at a time."""
        for path in self._paths():
            try:
                found = self.get(Capture.of_path(path))
            except ValueError:
                continue  # another folder that happens to be there
            if found is not None:
                yield found

    def _paths(self) -> list[str]:
        """`cdc/<tenant>/<source>/<table>` of each folder in the lake."""
        paths = [FOLDER]
        for _ in range(3):
            paths = [f"{path}/{name}" for path in paths for name in self._folders(path)]
        return paths

    def _folders(self, path: str) -> list[str]:
        hadoop = self._spark.sparkContext._jvm.org.apache.hadoop.fs.Path(  # type: ignore[union-attr]
            self._settings.lake_table(path)
        )
        system = hadoop.getFileSystem(self._spark.sparkContext._jsc.hadoopConfiguration())
        if not system.exists(hadoop):
            return []
        return sorted(
            str(status.getPath().getName()) for status in system.listStatus(hadoop) if status.isDirectory()
        )

    def _again(self, table: CdcTable, columns: Sequence[pa.Field]) -> Layered:
        return self._layered(table.capture, table.key, columns, table.layered.buckets)

    def _layered(
        self, capture: Capture, key: Sequence[str], columns: Sequence[pa.Field], buckets: int
    ) -> Layered:
        days = self._settings.tombstone_days
        return row_table(capture.path, key, columns, buckets=buckets, tombstone_days=days)


def stored(path: str, settings: SparkSettings) -> Layered | None:
    """How the table of change data at `path` is layered, as the table itself says; None when there is none."""
    uri = settings.lake_table(path).replace("s3a://", "s3://", 1)
    try:
        table = DeltaTable(uri, storage_options=storage_options(settings))
    except TableNotFoundError:
        return None
    properties = table.metadata().configuration
    schema = pa.schema(table.schema().to_arrow())
    columns = [pa.field(field.name, plain(field.type)) for field in schema if field.name not in ADDED.names]
    key = properties[KEY_PROPERTY].split(",")
    buckets = int(properties[BUCKETS_PROPERTY])
    layered = row_table(path, key, columns, buckets=buckets, tombstone_days=settings.tombstone_days)
    numbers = [file.bucket for file in files(table, layered) if file.layer == PRIMARY]
    if numbers:
        now = 1 << (max(numbers).bit_length() - 1)
        layered = row_table(path, key, columns, buckets=now, tombstone_days=settings.tombstone_days)
    kept = {name: properties[name] for name in (TRUNCATED_PROPERTY,) if name in properties}
    return replace(layered, table=replace(layered.table, properties=layered.table.properties | kept))
