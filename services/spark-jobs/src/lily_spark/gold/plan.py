"""A declaration with its sources: what the declaration alone could not tell is checked here against the lake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import SparkSession

from lily_common.gold.builtin import EVERYONE, table_path
from lily_common.gold.spec import Dimension, Side, TableSpec
from lily_common.gold.sql import ColumnRef, parse
from lily_spark.cdc.topics import FOLDER, Capture
from lily_spark.config import SparkSettings
from lily_spark.gold.expressions import check_all
from lily_spark.gold.silver import AssetSource, EdgeSource
from lily_spark.gold.sources import RowSource, Source


class PlanError(ValueError):
    """The declaration does not fit its sources; the message names the field."""


@dataclass(frozen=True)
class Plan:
    """A declaration that can be run. `sources` by alias."""

    spark: SparkSession
    tenant: str
    spec: TableSpec
    sources: Mapping[str, Source]

    @property
    def path(self) -> str:
        return table_path(self.tenant, self.spec.name)

    @property
    def fact(self) -> Source:
        return self.sources[self.spec.fact.alias]

    @cached_property
    def fact_key(self) -> tuple[str, ...]:
        """The fact's columns that are its key: in the order of the table's key, where that is the same."""
        return tuple(self.spec.fact_key()) if not self.spec.group_by else self.fact.key

    @property
    def anchors(self) -> tuple[str, ...]:
        """The sides of which one is enough for a row to be there."""
        full = (dimension.alias for dimension in self.spec.dimensions if dimension.join == "full")
        return (self.spec.fact.alias, *full)

    @property
    def partial(self) -> tuple[str, ...]:
        return tuple(side.alias for side in self.spec.sides if side.partial_update)

    @property
    def keeps(self) -> bool:
        """Whether a row that lost its fact stays."""
        return self.spec.fact.deletes == "keep" and not self.spec.full

    @cached_property
    def needed(self) -> dict[str, tuple[str, ...]]:
        """The columns of each source that anything refers to, by alias."""
        refs: list[ColumnRef] = []
        for name in self.spec.select:
            refs += self.spec.expression(name).columns
        condition = self.spec.condition()
        refs += condition.columns if condition else ()
        refs += [ColumnRef(self.spec.fact.alias, column) for column in self.fact_key]
        for dimension in self.spec.dimensions:
            refs += [self.spec.target(dimension, column) for column in dimension.on]
            own = list(dimension.on)
            if dimension.pick_column:
                own += [dimension.pick_column, *self.sources[dimension.alias].key]
            refs += [ColumnRef(dimension.alias, column) for column in own]
            for text in dimension.aggregate.values():
                refs += [ColumnRef(dimension.alias, found.column) for found in parse(text).columns]
        by_alias: dict[str, dict[str, None]] = {side.alias: {} for side in self.spec.sides}
        made = {dimension.alias: set(dimension.aggregate) for dimension in self.spec.dimensions}
        for ref in sorted(refs, key=lambda ref: (ref.table, ref.column)):
            if ref.column not in made.get(ref.table, ()):
                by_alias[ref.table][ref.column] = None
        for (
            dimension
        ) in self.spec.dimensions:  # what an aggregate is called may also be a column that it reads
            for text in dimension.aggregate.values():
                by_alias[dimension.alias] |= dict.fromkeys(found.column for found in parse(text).columns)
        return {alias: tuple(columns) for alias, columns in by_alias.items()}


def resolve(spark: SparkSession, settings: SparkSettings, tenant: str, spec: TableSpec) -> Plan:
    """Raises PlanError, RefusedExpressionError, and VersionGoneError when a source is not there (yet)."""
    check_all(spark, spec)
    sources = {side.alias: _source(spark, settings, tenant, side) for side in spec.sides}
    plan = Plan(spark, tenant, spec, sources)
    _check_columns(plan)
    _check_keys(plan)
    return plan


def _source(spark: SparkSession, settings: SparkSettings, tenant: str, side: Side) -> Source:
    if side.source.startswith("silver."):
        if tenant != EVERYONE:
            raise PlanError(f"{side.alias}: {side.source} is for the built-in tables")
        kind = AssetSource if side.source == "silver.assets" else EdgeSource
        return kind(spark, settings)
    _cdc, source, name = side.source.split(".", 2)
    capture = Capture(tenant, source, name)
    if capture.path.split("/")[0] != FOLDER or "/" in name:
        raise PlanError(f"{side.alias}: {side.source} is no source")
    return RowSource(spark, settings, capture.path)


def _check_columns(plan: Plan) -> None:
    for side in plan.spec.sides:
        held = plan.sources[side.alias].columns
        for column in plan.needed[side.alias]:
            if column not in held:
                raise PlanError(f"{side.source} has no column {column}; it has {', '.join(sorted(held))}")


def _check_keys(plan: Plan) -> None:
    spec = plan.spec
    if not spec.group_by and sorted(plan.fact_key) != sorted(plan.fact.key):
        raise PlanError(
            f"key: the key of {spec.fact.source} is {', '.join(plan.fact.key)}, and all of it is wanted"
        )
    for number, dimension in enumerate(spec.dimensions):
        key, on = plan.sources[dimension.alias].key, dimension.on
        if not set(key) <= set(on) and not dimension.pick and not dimension.aggregate:
            raise PlanError(
                f"dimensions.{number}.pick: several rows of {dimension.alias} can match one (its key is "
                f"{', '.join(key)}, the join is on {', '.join(on)}): say `latest by <column>`, or aggregate them"
            )
        if dimension.read == "window" and sorted(key) != sorted(on):
            raise PlanError(
                f"dimensions.{number}.read: by window a source is joined on its key, {', '.join(key)}"
            )
        if dimension.join == "full" and spec.group_by and _targets(plan, dimension) != sorted(plan.fact_key):
            raise PlanError(f"dimensions.{number}.on: a full join is on the fact's key")


def _targets(plan: Plan, dimension: Dimension) -> list[str]:
    return sorted(plan.spec.target(dimension, column).column for column in dimension.on)
