"""What a table is made of: rows by key of a layered table, read whole, by some columns' values, or as they were.

The rows of a key stand in the primary layer once and in the updates layer any number of times. Reading by a column that
is not of the key has to look at every row of a key: the row that has the value may have been overtaken by one that has
another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lily_spark.cdc.tables import KEY_PROPERTY, newest, quoted
from lily_spark.config import SparkSettings
from lily_spark.gold.snapshots import Span, VersionGoneError, changes, open_snapshot
from lily_spark.layered import UPDATES, united

UNAVAILABLE = "__unavailable"
_HELD = ("__version", "__deleted", UNAVAILABLE, "__known", "__layer")


class Source(Protocol):
    """A source of rows. `path` is its table in the lake; `by` and `values` restrict rows to those of these values."""

    @property
    def path(self) -> str: ...

    @property
    def key(self) -> tuple[str, ...]: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def identity(self) -> str:
        """Differs when the table was made anew, so that its versions begin again."""
        ...

    def version(self) -> int:
        """The newest version now. Raises VersionGoneError when there is no table."""
        ...

    def changed(self, span: Span, columns: Sequence[str], limit: int) -> pa.Table:
        """Values of `columns`, and `deleted`, in every row that the span changed: as it was before, and after.

        More rows than that do no harm; values may be null.
        """
        ...

    def rows(
        self,
        version: int,
        columns: Sequence[str],
        by: Sequence[str] = (),
        values: DataFrame | None = None,
    ) -> DataFrame:
        """The rows that were there at `version`, one a key: `columns` and `__unavailable`."""
        ...

    def holders(
        self, version: int, columns: Sequence[str], by: Sequence[str], values: DataFrame
    ) -> DataFrame:
        """`columns` of all rows that have these values, also of such that were overtaken: more, never fewer."""
        ...


@dataclass(frozen=True)
class RowSource:
    """A layered table of rows by key: change data, or an incremental table itself."""

    spark: SparkSession
    settings: SparkSettings
    path: str
    #: Whether a part of the key may be null, and is then a value like any other.
    null_safe: bool = False

    @cached_property
    def _table(self) -> tuple[tuple[str, ...], pa.Schema, str]:
        table = open_snapshot(self.settings, self.path)
        if table is None:
            raise VersionGoneError(f"there is no table {self.path} in the lake")
        metadata = table.metadata()
        key = metadata.configuration[KEY_PROPERTY]
        return tuple(key.split(",")), pa.schema(table.schema().to_arrow()), str(metadata.id)

    @property
    def key(self) -> tuple[str, ...]:
        return self._table[0]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in self._table[1].names if not name.startswith("__"))

    @property
    def identity(self) -> str:
        return self._table[2]

    def version(self) -> int:
        table = open_snapshot(self.settings, self.path)
        if table is None:
            raise VersionGoneError(f"there is no table {self.path} in the lake")
        return int(table.version())

    def changed(self, span: Span, columns: Sequence[str], limit: int) -> pa.Table:
        wanted = list(dict.fromkeys([*self.key, *columns, "__deleted"]))
        after = changes(self.settings, self.path, span, wanted, limit)
        found = _with_deleted(after, columns, after.column("__deleted"))
        if set(columns) <= set(self.key) or not after.num_rows:
            return distinct(found)
        keys = distinct(after.select(list(self.key)))
        deleted = _gone(after, self.key)
        raw = self._raw(span.since, list(dict.fromkeys([*self.key, *columns])))
        before = (
            raw.join(F.broadcast(self._frame(keys)), list(self.key), "left_semi")
            .join(F.broadcast(self._frame(deleted)), list(self.key), "left")
            .select(*map(quoted, columns), F.coalesce("deleted", F.lit(False)).alias("deleted"))
            .distinct()
        )
        was = pa.table(before.toArrow())
        return distinct(pa.concat_tables([found, was.cast(found.schema)]))

    def rows(
        self,
        version: int,
        columns: Sequence[str],
        by: Sequence[str] = (),
        values: DataFrame | None = None,
    ) -> DataFrame:
        raw = self._raw(version, list(dict.fromkeys([*self.key, *columns, *by])), held=_HELD).alias("raw")
        if values is None:
            there = united(raw, self.key, self._newest)
        elif set(by) <= set(self.key):
            there = self._newest(raw.join(F.broadcast(values.alias("v")), self._equal(by), "left_semi"))
        else:
            there = self._by_value(raw, by, values)
        return there.where("NOT __deleted").select(*map(quoted, dict.fromkeys([*columns, *by])), UNAVAILABLE)

    def holders(
        self, version: int, columns: Sequence[str], by: Sequence[str], values: DataFrame
    ) -> DataFrame:
        raw = self._raw(version, list(dict.fromkeys([*columns, *by])))
        found = raw.join(F.broadcast(values), list(by), "left_semi")
        return found.select(*map(quoted, columns)).distinct()

    def _raw(self, version: int, columns: Sequence[str], held: Sequence[str] = ()) -> DataFrame:
        """Both layers at that version. A column that the table had not yet is null."""
        uri = self.settings.lake_table(self.path)
        table = self.spark.read.format("delta").option("versionAsOf", version).load(uri)
        there = set(table.columns)
        newer = self._table[1]
        chosen = [
            F.col(quoted(name))
            if name in there
            else F.lit(None).cast(_spark_type(self.spark, newer.field(name))).alias(name)
            for name in (*columns, *held)
        ]
        return table.select(*chosen)

    def _by_value(self, raw: DataFrame, by: Sequence[str], values: DataFrame) -> DataFrame:
        """Keys that have an update are judged by all their rows; of the others the one row tells."""
        layer = F.col("__layer")
        updates, primary = raw.where(layer == UPDATES), raw.where(layer != UPDATES)
        touched = updates.select(*map(quoted, self.key)).distinct().withColumn("__touched", F.lit(True))
        sought = values.select(*map(quoted, by)).distinct().withColumn("__sought", F.lit(True))
        of_interest = (
            primary.join(F.broadcast(sought), list(by), "left")
            .join(F.broadcast(touched), list(self.key), "left")
            .where("__sought OR __touched")
            .drop("__sought", "__touched")
        )
        now = self._newest(updates.unionByName(of_interest))
        return now.join(F.broadcast(values), list(by), "left_semi")

    def _equal(self, by: Sequence[str]) -> Column:
        pairs = [(F.col(f"raw.{quoted(name)}"), F.col(f"v.{quoted(name)}")) for name in by]
        equal = [one.eqNullSafe(other) if self.null_safe else one == other for one, other in pairs]
        return reduce(Column.__and__, equal)

    def _newest(self, rows: DataFrame) -> DataFrame:
        return newest(rows, self.key)

    def _frame(self, rows: pa.Table) -> DataFrame:
        return self.spark.createDataFrame(rows)


def distinct(rows: pa.Table) -> pa.Table:
    """Each row once."""
    return rows.group_by(rows.column_names).aggregate([]).select(rows.column_names)


def _with_deleted(rows: pa.Table, columns: Sequence[str], deleted: pa.ChunkedArray) -> pa.Table:
    names = [*columns, "deleted"]
    return pa.table([*(rows.column(name) for name in columns), deleted.fill_null(False)], names=names)


def _gone(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Keys that the changes deleted and did not bring back."""
    counted = rows.group_by(list(key)).aggregate([("__deleted", "min")])
    deleted = counted.column("__deleted_min").fill_null(False)
    return counted.select(list(key)).append_column("deleted", deleted)


def _spark_type(spark: SparkSession, field: pa.Field) -> str:
    return spark.createDataFrame(pa.schema([field]).empty_table()).schema[0].dataType.simpleString()
