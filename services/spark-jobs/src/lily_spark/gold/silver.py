"""Lily's own data as sources: `silver.assets`, one row an asset, and `silver.edges`, one row an upstream of an asset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lily_spark.config import SparkSettings
from lily_spark.gold.scan import Snapshot, among, distinct, only, typed
from lily_spark.gold.sources import UNAVAILABLE
from lily_spark.storage.snapshots import Span, VersionGoneError, changes, open_snapshot
from lily_spark.tables import ASSETS
from lily_spark.transforms.frames import spark_frame
from lily_spark.transforms.overview import EDGE, asset_rows, edge_rows

_SUBJECT = ["tenant", "subject"]
_NAMES = ["tenant", "qualified_name"]
_REGISTERS = [
    "tenant",
    "subject",
    "register",
    "type",
    "version",
    "data",
    "event_id",
    "source",
    "time",
    "accepted_time",
]


@dataclass(frozen=True)
class _Silver:
    spark: SparkSession
    settings: SparkSettings
    path: str = ASSETS.name

    @property
    def identity(self) -> str:
        return str(self._open().metadata().id)

    def version(self) -> int:
        return int(self._open().version())

    def _open(self) -> DeltaTable:
        table = open_snapshot(self.settings, self.path)
        if table is None:
            raise VersionGoneError("there is no silver.assets yet")
        return table

    def _snapshot(self, version: int) -> Snapshot:
        return Snapshot(self.settings, self.path, version)

    def _raw(self, version: int) -> DataFrame:
        uri = self.settings.lake_table(self.path)
        return self.spark.read.format("delta").option("versionAsOf", version).load(uri)

    def _changed_registers(self, span: Span, limit: int) -> pa.Table:
        return changes(self.settings, self.path, span, ["tenant", "subject", "register"], limit)

    def _registers_of(self, version: int, subjects: pa.Table) -> pa.Table:
        """All registers of these assets (tenant, subject)."""
        snapshot = self._snapshot(version)
        if not subjects.num_rows:
            return pa.schema([snapshot.schema.field(name) for name in _REGISTERS]).empty_table()
        return only(snapshot.rows(_REGISTERS, among(_SUBJECT, subjects)), _SUBJECT, subjects)

    def _frame(self, found: pa.Table) -> DataFrame:
        return spark_frame(self.spark, found).coalesce(1)


class AssetSource(_Silver):
    """`silver.assets`: what is known of every asset of every tenant."""

    key = ("tenant", "qualified_name")
    columns = (
        "tenant",
        "qualified_name",
        "asset_type",
        "name",
        "parent",
        "database",
        "description",
        "data_type",
        "owners",
        "terms",
        "tags",
        "open_incidents",
        "upstreams",
    )

    def changed(self, span: Span, columns: Sequence[str], limit: int) -> pa.Table:
        found = self._changed_registers(span, limit).select(_SUBJECT).rename_columns(_NAMES)
        return _undeleted(distinct(found).select(list(columns)))

    def find(self, version: int, _columns: Sequence[str], by: Sequence[str], values: pa.Table) -> pa.Table:
        if list(by) != _NAMES:
            raise NotImplementedError("assets are found by tenant and qualified_name")
        subjects = typed(values, by, pa.schema([(name, pa.string()) for name in by]))
        return self._registers_of(version, subjects.rename_columns(_SUBJECT))

    def values(self, found: pa.Table, columns: Sequence[str]) -> pa.Table:
        renamed = found.select(_SUBJECT).rename_columns(_NAMES)
        return distinct(renamed.select(list(columns)))

    def frame(self, found: pa.Table, columns: Sequence[str]) -> DataFrame:
        return asset_rows(self._frame(found)).select(*columns, _nothing())

    def rows(self, version: int, columns: Sequence[str]) -> DataFrame:
        return asset_rows(self._raw(version)).select(*columns, _nothing())


class EdgeSource(_Silver):
    """`silver.edges`: every asset's upstreams; `via` tells edges between the same two apart."""

    key = ("tenant", "qualified_name", "upstream", "via")
    columns = key

    def changed(self, span: Span, columns: Sequence[str], limit: int) -> pa.Table:
        found = self._changed_registers(span, limit)
        gone = found.filter(pc.equal(found.column("register"), "deleted"))
        subjects = distinct(gone.select(_SUBJECT))
        # The edges of assets that were deleted are seen no more.
        deleted = self._registers_of(span.last, subjects).select(found.column_names)
        return _undeleted(distinct(_edges(pa.concat_tables([found, deleted])).select(list(columns))))

    def find(self, version: int, _columns: Sequence[str], by: Sequence[str], values: pa.Table) -> pa.Table:
        edges = self._snapshot(version).rows(
            ["tenant", "subject", "register"], pc.starts_with(pc.field("register"), EDGE)
        )
        named = _edges(edges)
        values = typed(values, by, pa.schema([(name, pa.string()) for name in by]))
        subjects = distinct(only(named, by, values).select(_NAMES)).rename_columns(_SUBJECT)
        return self._registers_of(version, subjects)

    def values(self, found: pa.Table, columns: Sequence[str]) -> pa.Table:
        return distinct(_edges(found).select(list(columns)))

    def frame(self, found: pa.Table, columns: Sequence[str]) -> DataFrame:
        return edge_rows(self._frame(found)).select(*columns, _nothing())

    def rows(self, version: int, columns: Sequence[str]) -> DataFrame:
        return edge_rows(self._raw(version)).select(*columns, _nothing())


def _edges(registers: pa.Table) -> pa.Table:
    """The edge registers as tenant, qualified_name, upstream, via, whatever became of them."""
    own = registers.filter(pc.starts_with(registers.column("register"), EDGE))
    parts = pc.split_pattern(own.column("register"), "|", max_splits=2)
    return pa.table(
        {
            "tenant": own.column("tenant"),
            "qualified_name": own.column("subject"),
            "upstream": pc.list_element(parts, 1),
            "via": pc.list_element(parts, 2),
        }
    )


def _undeleted(rows: pa.Table) -> pa.Table:
    return rows.append_column("deleted", pa.array([False] * rows.num_rows, pa.bool_()))


def _nothing() -> Column:
    return F.array().cast("array<string>").alias(UNAVAILABLE)
