"""Lily's own data as sources: `silver.assets`, one row an asset, and `silver.edges`, one row an upstream of an asset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lily_spark.config import SparkSettings
from lily_spark.gold.snapshots import Span, VersionGoneError, changes, open_snapshot
from lily_spark.gold.sources import UNAVAILABLE, distinct
from lily_spark.tables import ASSETS
from lily_spark.transforms.overview import EDGE, asset_rows, edge_rows

_NAMES = ["tenant", "qualified_name"]


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

    def _raw(self, version: int) -> DataFrame:
        uri = self.settings.lake_table(self.path)
        return self.spark.read.format("delta").option("versionAsOf", version).load(uri)

    def _registers(self, span: Span, limit: int) -> pa.Table:
        return changes(self.settings, self.path, span, ["tenant", "subject", "register"], limit)


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
        found = self._registers(span, limit).select(["tenant", "subject"]).rename_columns(_NAMES)
        rows = distinct(found).select(list(columns))
        return distinct(rows.append_column("deleted", pa.array([False] * rows.num_rows, pa.bool_())))

    def rows(
        self,
        version: int,
        columns: Sequence[str],
        by: Sequence[str] = (),
        values: DataFrame | None = None,
    ) -> DataFrame:
        raw = self._raw(version)
        if values is not None:
            raw = raw.join(F.broadcast(_subjects(values, by)), list(_as_subject(by)), "left_semi")
        empty = F.array().cast("array<string>").alias(UNAVAILABLE)
        return asset_rows(raw).select(*dict.fromkeys([*columns, *by]), empty)

    def holders(
        self, version: int, columns: Sequence[str], by: Sequence[str], values: DataFrame
    ) -> DataFrame:
        found = asset_rows(self._raw(version)).join(F.broadcast(values), list(by), "left_semi")
        return found.select(*columns).distinct()


class EdgeSource(_Silver):
    """`silver.edges`: every asset's upstreams; `via` tells edges between the same two apart."""

    key = ("tenant", "qualified_name", "upstream", "via")
    columns = key

    def changed(self, span: Span, columns: Sequence[str], limit: int) -> pa.Table:
        found = self._registers(span, limit)
        own = found.filter(pc.starts_with(found.column("register"), EDGE))
        parts = [register.split("|", 2) for register in own.column("register").to_pylist()]
        values = {
            "tenant": own.column("tenant"),
            "qualified_name": own.column("subject"),
            "upstream": pa.array([part[1] for part in parts], pa.string()),
            "via": pa.array([part[2] for part in parts], pa.string()),
        }
        rows = pa.table([values[name] for name in columns], names=list(columns))
        rows = pa.concat_tables([rows, self._of_deleted(span, found, columns)])
        return distinct(rows.append_column("deleted", pa.array([False] * rows.num_rows, pa.bool_())))

    def rows(
        self,
        version: int,
        columns: Sequence[str],
        by: Sequence[str] = (),
        values: DataFrame | None = None,
    ) -> DataFrame:
        raw = self._raw(version)
        if values is not None:
            subjects = self.holders(version, ["tenant", "qualified_name"], by, values)
            raw = raw.join(F.broadcast(_subjects(subjects, _NAMES)), ["tenant", "subject"], "left_semi")
        found = edge_rows(raw)
        if values is not None:
            found = found.join(F.broadcast(values), list(by), "left_semi")
        empty = F.array().cast("array<string>").alias(UNAVAILABLE)
        return found.select(*dict.fromkeys([*columns, *by]), empty)

    def holders(
        self, version: int, columns: Sequence[str], by: Sequence[str], values: DataFrame
    ) -> DataFrame:
        found = _edges_ever(self._raw(version)).join(F.broadcast(values), list(by), "left_semi")
        return found.select(*columns).distinct()

    def _of_deleted(self, span: Span, found: pa.Table, columns: Sequence[str]) -> pa.Table:
        """The edges of assets that were deleted: they are seen no more."""
        gone = found.filter(pc.equal(found.column("register"), "deleted"))
        subjects = distinct(gone.select(["tenant", "subject"]).rename_columns(_NAMES))
        schema = pa.schema([pa.field(name, pa.string()) for name in columns])
        if not subjects.num_rows:
            return schema.empty_table()
        values = self.spark.createDataFrame(subjects)
        return pa.table(self.holders(span.last, columns, _NAMES, values).toArrow()).cast(schema)


def _edges_ever(raw: DataFrame) -> DataFrame:
    """Every edge register, whatever became of it."""
    part = F.split("register", r"\|", 3)
    edges = raw.where(F.col("register").startswith(EDGE))
    return edges.select(
        "tenant",
        F.col("subject").alias("qualified_name"),
        part.getItem(1).alias("upstream"),
        part.getItem(2).alias("via"),
    )


def _as_subject(by: Sequence[str]) -> list[str]:
    return ["subject" if name == "qualified_name" else name for name in by]


def _subjects(values: DataFrame, by: Sequence[str]) -> DataFrame:
    return values.select(*(F.col(name).alias(to) for name, to in zip(by, _as_subject(by), strict=True)))
