"""Sources that a test writes itself, as change data comes: tables by key, their appends and compactions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from tests.integration.spark.captured import newest

from lily_common.gold.spec import TableSpec, read
from lily_spark.cdc.tables import latest, row_table
from lily_spark.config import SparkSettings
from lily_spark.gold.refresh import Refresher
from lily_spark.gold.sources import RowSource
from lily_spark.sinks.layers import UpdatesLayer
from lily_spark.storage.snapshots import open_snapshot
from lily_spark.tables import open_table
from lily_spark.upkeep.compaction import compact

TENANT = "acme"
Row = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class SourceTable:
    """One captured table of the tenant; each write is one append, as a batch of the lake job is."""

    _positions = itertools.count(1)

    def __init__(
        self,
        spark: SparkSession,
        settings: SparkSettings,
        name: str,
        key: Sequence[str],
        columns: Mapping[str, pa.DataType],
    ) -> None:
        self._spark, self._settings = spark, settings
        fields = [pa.field(column, kind) for column, kind in columns.items()]
        self.key = tuple(key)
        self.layered = row_table(f"cdc/{TENANT}/shop/public.{name}", key, fields, buckets=2)
        open_table(self.layered.table, settings)
        self.updates = UpdatesLayer(settings, self.layered)

    @property
    def path(self) -> str:
        return self.layered.table.name

    def write(self, rows: Iterable[Row] = (), deleted: Iterable[Row] = ()) -> None:
        """Append these rows, and of `deleted` the keys. A row may name columns that it lacks in `__unavailable`."""
        given = [*((row, False) for row in rows), *((row, True) for row in deleted)]
        made = [
            {
                "__unavailable": None,
                **({name: row[name] for name in self.key} if gone else row),
                "__version": f"{next(self._positions):020d}.{0:020d}",
                "__op": "d" if gone else "u",
                "__deleted": gone,
                "__time": datetime.now(UTC),
            }
            for row, gone in given
        ]
        names = self.layered.table.schema
        columns = {field.name: [row.get(field.name) for row in made] for field in names}
        self.updates.append(pa.table(columns, schema=names))

    def compact(self) -> None:
        compact(self._spark, self._settings, self.updates)

    def rows(self) -> list[Row]:
        found = self._spark.read.format("delta").load(self.layered.table.uri(self._settings))
        return [row.asDict() for row in latest(found, self.key).collect()]


def refresher(spark: SparkSession, settings: SparkSettings, declaration: Mapping[str, Any]) -> Refresher:
    return Refresher(spark.newSession(), settings, TENANT, spec(declaration))


def spec(declaration: Mapping[str, Any]) -> TableSpec:
    return read(dict(declaration))


def held(spark: SparkSession, settings: SparkSettings, of: Refresher) -> list[Row]:
    """The incremental table's rows as readers see them, in the order of their keys."""
    source = RowSource(spark, settings, of.target.path)
    rows = source.rows(source.version(), of.spec.columns).collect()
    found = [row.asDict() for row in rows]
    return sorted(found, key=lambda row: [str(row[name]) for name in of.spec.key])


def read_without_spark(settings: SparkSettings, of: Refresher) -> list[Row]:
    """As `held`, by the readers' rule in plain Python: much quicker for a small table."""
    table = open_snapshot(settings, of.target.path)
    assert table is not None
    rows = newest(table.to_pyarrow_table().to_pylist(maps_as_pydicts="lossy"), tuple(of.spec.key))
    return sorted(rows.values(), key=lambda row: [str(row[name]) for name in of.spec.key])
