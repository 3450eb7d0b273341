"""The rows of one table at fixed versions of its sources, computed and held: what `refresh` compares and commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lily_common.gold.spec import Side
from lily_spark.cdc.tables import quoted
from lily_spark.config import SparkSettings
from lily_spark.gold import joining, merging
from lily_spark.gold.keys import SPOKE, key_names
from lily_spark.gold.plan import Plan
from lily_spark.gold.snapshots import Span
from lily_spark.gold.sources import RowSource
from lily_spark.gold.windows import window_rows


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
        frame = self.plan.spark.createDataFrame(keys)
        if self.plan.spec.group_by:
            return self._changed_groups(frame)
        key = list(self.plan.spec.key)
        named = frame.select(
            *(F.col(k).alias(name) for k, name in zip(key_names(self.plan), key, strict=True))
        )
        rows = joining.computed(self.plan, self.read, frame)
        if self.plan.partial:
            spoke = frame.select(
                *(F.col(k).alias(n) for k, n in zip(key_names(self.plan), key, strict=True)), SPOKE
            )
            rows = rows.join(spoke, key, "left")
        return merging.difference(self.plan, rows, self.held(key, named))

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

    def held(self, by: Sequence[str] = (), values: DataFrame | None = None) -> DataFrame:
        """The table's own rows."""
        source = RowSource(
            self.plan.spark, self.settings, self.plan.path, null_safe=bool(self.plan.spec.group_by)
        )
        columns = merging.table_columns(self.plan)
        return source.rows(self.held_version, columns, by, values).select(*map(quoted, columns))

    def read(
        self, side: Side, columns: Sequence[str], by: Sequence[str], values: DataFrame | None
    ) -> DataFrame:
        source = self.plan.sources[side.alias]
        if side.read == "window" and self.spans and isinstance(source, RowSource):
            span = self.spans[side.alias]
            return window_rows(source, span, columns, by, values, self.settings.gold_incremental_rows)
        return source.rows(self.versions[side.alias], columns, by, values)

    def _changed_groups(self, keys: DataFrame) -> DataFrame:
        """Groups that the facts are in now, and those that they were in."""
        plan = self.plan
        groups = list(plan.spec.group_by)
        before = {alias: span.since for alias, span in self.spans.items()}
        was = Rows(plan, self.settings, before, self.held_version, {})
        parts = [
            joining.there(plan, joining.computed(plan, rows.read, keys)).select(*map(quoted, groups))
            for rows in (was, self)
        ]
        found = pa.table(parts[0].union(parts[1]).distinct().toArrow())
        touched = plan.spark.createDataFrame(found)
        rows = joining.there(plan, joining.computed(plan, self._only(touched), None))
        within = rows.join(F.broadcast(touched.alias("g")), _same(groups, "g"), "left_semi")
        return merging.summary_difference(plan, joining.grouped(plan, within), self.held(groups, touched))

    def _only(self, groups: DataFrame) -> joining.Read:
        """Reads just those facts that are in these groups, where the fact alone tells its group."""
        spec = self.plan.spec
        alias = spec.fact.alias
        expressions = {name: spec.expression(name) for name in spec.group_by}
        if any(column.table != alias for found in expressions.values() for column in found.columns):
            return self.read

        def read(
            side: Side, columns: Sequence[str], by: Sequence[str], values: DataFrame | None
        ) -> DataFrame:
            rows = self.read(side, columns, by, values)
            if side.alias != alias:
                return rows
            given = rows.columns
            whole = rows.withColumn("__fact", F.struct(*map(quoted, given))).select(
                F.col("__fact").alias(alias), F.struct(*map(quoted, given)).alias("__row")
            )
            named = whole.select(
                "__row", *(F.expr(found.text).alias(name) for name, found in expressions.items())
            )
            within = named.join(F.broadcast(groups.alias("g")), _same(list(expressions), "g"), "left_semi")
            return within.select("__row.*")

        return read


def _same(columns: Sequence[str], other: str) -> Column:
    return reduce(
        Column.__and__, (F.col(quoted(name)).eqNullSafe(F.col(f"{other}.{quoted(name)}")) for name in columns)
    )
