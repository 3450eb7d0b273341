"""What a table is made of: rows by key of a layered table, all of them or some.

The rows of a key stand in the primary layer once and in the updates layer any number of times. Looking for rows by a
column that is not of the key has to take in every row of a key: the one that has the value may have been overtaken by
one that has another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lily_spark.cdc.tables import KEY_PROPERTY, newest
from lily_spark.config import SparkSettings
from lily_spark.gold.scan import Snapshot, among, distinct, only, typed
from lily_spark.layered import PRIMARY, UPDATES, quoted, united
from lily_spark.storage.snapshots import Span, VersionGoneError, changes, open_snapshot, plain
from lily_spark.transforms.frames import spark_frame

UNAVAILABLE = "__unavailable"
VERSION, DELETED, KNOWN, LAYER = "__version", "__deleted", "__known", "__layer"
_HELD = (VERSION, DELETED, UNAVAILABLE, KNOWN)


class Source(Protocol):
    """A source of rows. What is found of some rows (Arrow, as the files hold it) `frame` makes into what holds."""

    @property
    def path(self) -> str:
        """Its table in the lake."""
        ...

    @property
    def key(self) -> tuple[str, ...]: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def identity(self) -> str:
        """Differs when the table was made anew, so that its versions begin again."""
        ...

    def version(self) -> int:
        """The newest version when the source was made. Raises VersionGoneError when there is no table."""
        ...

    def changed(self, span: Span, columns: Sequence[str], limit: int) -> pa.Table:
        """Values of `columns`, and `deleted`, in every row that the span changed: as it was before, and after.

        More rows than that do no harm; values may be null.
        """
        ...

    def find(self, version: int, columns: Sequence[str], by: Sequence[str], values: pa.Table, /) -> pa.Table:
        """All that `frame` needs to know the rows that have these values in `by` at `version`, and perhaps others.

        By columns of the key, exactly the rows of those keys.
        """
        ...

    def values(self, found: pa.Table, columns: Sequence[str]) -> pa.Table:
        """`columns` of what was found, also of rows that were overtaken: more, never fewer."""
        ...

    def frame(self, found: pa.Table, columns: Sequence[str]) -> DataFrame:
        """The rows that hold of what was found: `columns` and `__unavailable`."""
        ...

    def rows(self, version: int, columns: Sequence[str]) -> DataFrame:
        """All rows that were there at `version`, one a key: `columns` and `__unavailable`."""
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
    def _table(self) -> DeltaTable:
        table = open_snapshot(self.settings, self.path)
        if table is None:
            raise VersionGoneError(f"there is no table {self.path} in the lake")
        return table

    @cached_property
    def key(self) -> tuple[str, ...]:
        return tuple(self._table.metadata().configuration[KEY_PROPERTY].split(","))

    @cached_property
    def schema(self) -> pa.Schema:
        return plain(pa.schema(self._table.schema().to_arrow()))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in self.schema.names if not name.startswith("__"))

    @property
    def identity(self) -> str:
        return str(self._table.metadata().id)

    def version(self) -> int:
        return int(self._table.version())

    def changed(self, span: Span, columns: Sequence[str], limit: int) -> pa.Table:
        wanted = list(dict.fromkeys([*self.key, *columns, DELETED]))
        after = changes(self.settings, self.path, span, wanted, limit)
        found = _with_deleted(after, columns, after.column(DELETED))
        if set(columns) <= set(self.key) or not after.num_rows:
            return distinct(found)
        gone = _gone(after, self.key)
        snapshot = Snapshot(self.settings, self.path, span.since)
        was = _in_full(
            snapshot.rows(list(dict.fromkeys([*self.key, *columns])), among(self.key, gone)),
            self.schema,
            columns,
        )
        before = was.join(gone, list(self.key), join_type="inner")
        return distinct(pa.concat_tables([found, before.select([*columns, "deleted"]).cast(found.schema)]))

    def find(self, version: int, columns: Sequence[str], by: Sequence[str], values: pa.Table) -> pa.Table:
        snapshot = Snapshot(self.settings, self.path, version)
        wanted = list(dict.fromkeys([*self.key, *columns, *by]))
        values = typed(values, by, self.schema)
        if not values.num_rows:
            return self._none(wanted)
        layer = pc.field(LAYER)
        updates = _in_full(snapshot.rows([*wanted, *_HELD], layer == UPDATES), self.schema, [*wanted, *_HELD])
        if set(by) <= set(self.key):
            updates = only(updates, by, values, null_safe=self.null_safe)
            found = self._primary(snapshot, wanted, among(by, values, null_safe=self.null_safe), updates)
            return pa.concat_tables([only(found, by, values, null_safe=self.null_safe), updates])
        keys = distinct(updates.select(list(self.key)))
        condition = among(by, values)
        if keys.num_rows:
            condition = condition | among(self.key, keys)
        primary = self._primary(snapshot, wanted, condition, updates)
        everything = pa.concat_tables([primary, updates])
        concerned = distinct(only(everything, by, values).select(list(self.key)))
        return only(everything, self.key, concerned)

    def values(self, found: pa.Table, columns: Sequence[str]) -> pa.Table:
        return distinct(found.select(list(columns)))

    def frame(self, found: pa.Table, columns: Sequence[str]) -> DataFrame:
        rows = spark_frame(self.spark, found).coalesce(1)
        there = newest(rows, self.key).where("NOT __deleted")
        return there.select(*map(quoted, columns), UNAVAILABLE)

    def rows(self, version: int, columns: Sequence[str]) -> DataFrame:
        raw = self._raw(version, [*dict.fromkeys([*self.key, *columns]), *_HELD, LAYER])
        there = united(raw, self.key, lambda rows: newest(rows, self.key)).where("NOT __deleted")
        return there.select(*map(quoted, columns), UNAVAILABLE)

    def _primary(
        self, snapshot: Snapshot, wanted: Sequence[str], condition: pc.Expression, updates: pa.Table
    ) -> pa.Table:
        """Rows of the primary layer. Their versions, the largest part of a row, are read only where they may matter."""
        condition = (pc.field(LAYER) == PRIMARY) & condition
        names = [*wanted, *_HELD]
        newest_folded = snapshot.greatest_version(PRIMARY)
        oldest_update = pc.min(updates.column(VERSION)).as_py() if updates.num_rows else None
        if oldest_update is None or (newest_folded is not None and newest_folded < oldest_update):
            # Whatever was folded is older than every update: which of the folded is the newer is not asked.
            read = snapshot.rows([*wanted, DELETED, UNAVAILABLE], condition)
            found = _in_full(read, self.schema, names)
            place = names.index(VERSION)
            return found.set_column(place, VERSION, pa.array([""] * found.num_rows, pa.string()))
        return _in_full(snapshot.rows(names, condition), self.schema, names)

    def _none(self, wanted: Sequence[str]) -> pa.Table:
        return pa.schema([self.schema.field(name) for name in (*wanted, *_HELD)]).empty_table()

    def _raw(self, version: int, columns: Sequence[str]) -> DataFrame:
        """Both layers at that version. A column that the table had not yet is null."""
        uri = self.settings.lake_table(self.path)
        table = self.spark.read.format("delta").option("versionAsOf", version).load(uri)
        there = set(table.columns)
        chosen = [
            F.col(quoted(name))
            if name in there
            else F.lit(None).cast(_spark_type(self.spark, self.schema.field(name))).alias(name)
            for name in columns
        ]
        return table.select(*chosen)


def _in_full(rows: pa.Table, schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    """`rows` with all `columns`, of the types that the table has now."""
    made = [
        rows.column(name).cast(schema.field(name).type)
        if name in rows.column_names
        else pa.nulls(rows.num_rows, schema.field(name).type)
        for name in dict.fromkeys([*columns, *rows.column_names])
    ]
    return pa.table(made, names=list(dict.fromkeys([*columns, *rows.column_names])))


def _with_deleted(rows: pa.Table, columns: Sequence[str], deleted: pa.ChunkedArray) -> pa.Table:
    names = [*columns, "deleted"]
    return pa.table([*(rows.column(name) for name in columns), deleted.fill_null(False)], names=names)


def _gone(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The keys, each with whether the changes deleted it and did not bring it back (`deleted`)."""
    counted = rows.group_by(list(key)).aggregate([(DELETED, "min")])
    deleted = counted.column(f"{DELETED}_min").fill_null(False)
    return counted.select(list(key)).append_column("deleted", deleted)


def _spark_type(spark: SparkSession, field: pa.Field) -> str:
    return spark.createDataFrame(pa.schema([field]).empty_table()).schema[0].dataType.simpleString()
