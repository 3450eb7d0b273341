"""The rows of one table at fixed versions of its sources, computed and held: what `refresh` compares and commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lily_common.gold.spec import Side
from lily_spark.config import SparkSettings
from lily_spark.gold import joining, merging
from lily_spark.gold.found import found_of
from lily_spark.gold.keys import SPOKE, key_names
from lily_spark.gold.plan import Plan
from lily_spark.gold.sources import RowSource
from lily_spark.layered import quoted
from lily_spark.storage.snapshots import Span
from lily_spark.transforms.frames import spark_frame


@dataclass(frozen=True)
class Rows:
    """`versions` and `spans` by alias; `held_version` is the table's own. No spans: all sources are read whole."""

    plan: Plan
    settings: SparkSettings
    versions: Mapping[str, int]
    held_version: int
    spans: Mapping[str, Span]

    def changed(self, keys: pa.Table) -> DataFrame:
        """What has to change in the table, as `merging` says it, for facts of these keys (with SPOKE)."""
        plan = self.plan
        if plan.spec.group_by:
            return self._changed_groups(keys)
        key = list(plan.spec.key)
        frame = spark_frame(plan.spark, keys)
        rows = joining.computed(plan, self._some(keys), frame)
        if plan.partial:
            named = zip(key_names(plan), key, strict=True)
            spoke = frame.select(*(F.col(name).alias(own) for name, own in named), SPOKE)
            rows = rows.join(spoke, key, "left")
        return merging.difference(plan, rows, self._held(keys.select(key_names(plan)).rename_columns(key)))

    def different(self) -> DataFrame:
        """What has to change in the table for it to be what a computation of all rows gives."""
        rows = joining.computed(self.plan, self.read, None)
        if self.plan.spec.group_by:
            whole = joining.grouped(self.plan, joining.there(self.plan, rows))
            return merging.summary_difference(self.plan, whole, self.held())
        rows = rows.withColumn(SPOKE, F.array().cast("array<string>"))
        return merging.difference(self.plan, rows, self.held())

    def whole(self) -> DataFrame:
        """The table's columns, all rows, as if there were no table yet."""
        rows = joining.computed(self.plan, self.read, None)
        if self.plan.spec.group_by:
            return joining.grouped(self.plan, joining.there(self.plan, rows))
        if self.plan.partial:
            rows = rows.withColumn(merging.SIDES, F.array_sort(joining.PRESENT))
        return joining.there(self.plan, rows, merging.table_columns(self.plan))

    def held(self) -> DataFrame:
        """The table's own rows, all of them."""
        columns = merging.table_columns(self.plan)
        return self._own().rows(self.held_version, columns).select(*map(quoted, columns))

    def read(self, side: Side) -> DataFrame:
        """All rows of a side."""
        return self.plan.sources[side.alias].rows(self.versions[side.alias], self.plan.needed[side.alias])

    def _some(self, keys: pa.Table) -> joining.Read:
        """Reads what the facts of these keys need of each side."""
        limit = self.settings.gold_incremental_rows
        found = found_of(self.plan, self.versions, self.spans, keys, limit)

        def read(side: Side) -> DataFrame:
            return self.plan.sources[side.alias].frame(found[side.alias], self.plan.needed[side.alias])

        return read

    def _own(self) -> RowSource:
        summary = bool(self.plan.spec.group_by)
        return RowSource(self.plan.spark, self.settings, self.plan.path, null_safe=summary)

    def _held(self, keys: pa.Table) -> DataFrame:
        """The table's own rows of these keys."""
        own, columns = self._own(), merging.table_columns(self.plan)
        found = own.find(self.held_version, columns, self.plan.spec.key, keys)
        return own.frame(found, columns).select(*map(quoted, columns))

    def _changed_groups(self, keys: pa.Table) -> DataFrame:
        """Groups that the facts are in now, and those that they were in."""
        plan = self.plan
        groups = list(plan.spec.group_by)
        before = {alias: span.since for alias, span in self.spans.items()}
        was = Rows(plan, self.settings, before, self.held_version, {})
        frame = spark_frame(plan.spark, keys)
        parts = [
            joining.there(plan, joining.computed(plan, rows._some(keys), frame)).select(*map(quoted, groups))
            for rows in (was, self)
        ]
        found = pa.table(parts[0].union(parts[1]).distinct().toArrow())
        touched = spark_frame(plan.spark, found)
        rows = joining.there(plan, joining.computed(plan, self._only(touched), None))
        within = _among(rows, touched, {name: F.col(quoted(name)) for name in groups})
        return merging.summary_difference(plan, joining.grouped(plan, within), self._held(found))

    def _only(self, groups: DataFrame) -> joining.Read:
        """Reads just those facts that are in these groups, where the fact alone tells its group."""
        spec = self.plan.spec
        alias = spec.fact.alias
        expressions = {name: spec.expression(name) for name in spec.group_by}
        if any(column.table != alias for found in expressions.values() for column in found.columns):
            return self.read

        def read(side: Side) -> DataFrame:
            rows = self.read(side)
            if side.alias != alias:
                return rows
            whole = rows.select(F.struct("*").alias(alias))
            named = whole.select(
                alias, *(F.expr(found.text).alias(f"g_{name}") for name, found in expressions.items())
            )
            given = {name: F.col(quoted(f"g_{name}")) for name in expressions}
            return _among(named, groups, given).select(f"{alias}.*")

        return read


def _among(rows: DataFrame, groups: DataFrame, given: Mapping[str, Column]) -> DataFrame:
    """`rows` whose `given` values are those of one of the few `groups`, null like any other value."""
    wanted = groups.select(*(F.col(quoted(name)).alias(f"w_{name}") for name in given))
    same = reduce(
        Column.__and__, (value.eqNullSafe(F.col(quoted(f"w_{name}"))) for name, value in given.items())
    )
    return rows.join(F.broadcast(wanted), same, "left_semi")
