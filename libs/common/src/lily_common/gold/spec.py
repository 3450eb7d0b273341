"""The declaration of an incremental table. `docs/tables.md` says what each field is for.

What can be known without the lake is checked here, with errors that name the field. That the sources exist, which
columns they have and what their keys are, the lake job checks when it plans (`lily_spark.gold.plan`).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Self

from pydantic import Field, model_validator

from lily_common.declaring import problems
from lily_common.declaring import wrong as _fail
from lily_common.gold.durations import Seconds
from lily_common.gold.sides import (
    MAX_COLUMNS,
    MAX_DIMENSIONS,
    NAME_PATTERN,
    ColumnName,
    Dimension,
    Side,
    Strict,
    TableName,
    Text,
)
from lily_common.gold.sql import ColumnRef, Expression, ExpressionError, parse

__all__ = ["NAME_PATTERN", "Dimension", "Side", "TableSpec", "problems", "read"]


class TableSpec(Strict):
    """A declaration, checked. Spans of time are in seconds."""

    name: TableName
    description: str = Field("", max_length=2_000)
    fact: Side
    dimensions: list[Dimension] = Field(default_factory=list, max_length=MAX_DIMENSIONS)
    select: dict[ColumnName, Text] = Field(
        min_length=1, max_length=MAX_COLUMNS, description="Column -> expression over `<alias>.<column>`"
    )
    where: Text | None = Field(None, description="Which rows are in the table")
    key: list[ColumnName] = Field(
        default_factory=list,
        max_length=16,
        description="The table's columns that are the fact's key; of a summary table, its `group_by`",
    )
    group_by: list[ColumnName] = Field(default_factory=list, max_length=16)
    aggregates: dict[ColumnName, Text] = Field(
        default_factory=dict, max_length=100, description="Column -> aggregate over the columns of `select`"
    )
    interval: Seconds = Field(60, description="How often it is refreshed", ge=1)
    overlap: Seconds = Field(0, description="How far back each refresh takes changes a second time")
    full_refresh: Seconds | None = Field(
        604_800,
        ge=60,
        description="How often every row is recomputed, compared and repaired; null: by command alone",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_sides(self)
        _check_columns(self)
        _check_key(self)
        _check_partial(self)
        return self

    @property
    def sides(self) -> list[Side]:
        """The fact, then the dimensions."""
        return [self.fact, *self.dimensions]

    @property
    def partial(self) -> bool:
        return any(side.partial_update for side in self.sides)

    @property
    def full(self) -> bool:
        """Whether rows may come from a dimension alone."""
        return any(dimension.join == "full" for dimension in self.dimensions)

    @property
    def columns(self) -> list[str]:
        return [*self.group_by, *self.aggregates] if self.group_by else list(self.select)

    @property
    def digest(self) -> int:
        """A number (62 bits) that differs when the table's rows may: neither its times nor its words count."""
        meaning = self.model_dump(mode="json", exclude={"description", "interval", "overlap", "full_refresh"})
        text = json.dumps(meaning, separators=(",", ":")).encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 2

    def expression(self, column: str) -> Expression:
        """The expression of a column of `select`."""
        return parse(self.select[column])

    def condition(self) -> Expression | None:
        return None if self.where is None else parse(self.where)

    def target(self, dimension: Dimension, column: str) -> ColumnRef:
        """What the dimension's `on` column is compared with."""
        return _target(self, dimension.on[column])

    def fact_key(self) -> list[str]:
        """The fact's columns that the key's columns are, in the key's order (not of a summary table)."""
        plain = (self.expression(column).plain for column in self.key)
        return [found.column for found in plain if found is not None]


def read(declaration: Any) -> TableSpec:
    """The checked declaration. Raises pydantic's ValidationError, whose locations name the fields."""
    return TableSpec.model_validate(declaration)


def _parsed(field: str, text: str) -> Expression:
    try:
        return parse(text)
    except ExpressionError as wrong:
        raise _fail(field, str(wrong)) from None


def _target(spec: TableSpec, text: str) -> ColumnRef:
    alias, dot, column = text.partition(".")
    return ColumnRef(alias, column) if dot else ColumnRef(spec.fact.alias, alias)


def _check_sides(spec: TableSpec) -> None:
    known = [spec.fact.alias]
    if spec.fact.source == "silver.edges":
        raise _fail("fact.source", "silver.edges can be a dimension only")
    for number, dimension in enumerate(spec.dimensions):
        field = f"dimensions.{number}"
        if dimension.alias in known:
            raise _fail(f"{field}.as", f"there is a source called {dimension.alias} already")
        for column, text in dimension.on.items():
            target = _target(spec, text)
            if target.table not in known:
                raise _fail(
                    f"{field}.on.{column}", f"{target.table} is neither the fact nor an earlier dimension"
                )
        if dimension.pick and dimension.aggregate:
            raise _fail(f"{field}.pick", "pick a row or aggregate the rows, not both")
        for column, text in dimension.aggregate.items():
            found = _parsed(f"{field}.aggregate.{column}", text)
            if not found.aggregates:
                raise _fail(f"{field}.aggregate.{column}", "an aggregate such as sum(amount) is wanted")
            if any(one.table for one in found.columns):
                raise _fail(
                    f"{field}.aggregate.{column}", f"only columns of {dimension.alias}, without its name"
                )
        if dimension.join == "full" and any(
            _target(spec, text).table != spec.fact.alias for text in dimension.on.values()
        ):
            raise _fail(f"{field}.on", "a full join is on the fact's key")
        known.append(dimension.alias)
    joins = {dimension.join for dimension in spec.dimensions}
    if {"full", "inner"} <= joins:
        raise _fail("dimensions", "a full join goes with left joins, not with inner ones")


def _check_columns(spec: TableSpec) -> None:
    known = {side.alias for side in spec.sides}
    given = [*((f"select.{name}", text) for name, text in spec.select.items())]
    if spec.where is not None:
        given.append(("where", spec.where))
    for field, text in given:
        found = _parsed(field, text)
        if found.aggregates:
            raise _fail(field, "aggregates belong under aggregates, beside group_by")
        for column in found.columns:
            if not column.table:
                raise _fail(
                    field, f"{column.column}: say of which source, as in {spec.fact.alias}.{column.column}"
                )
            if column.table not in known:
                raise _fail(field, f"{column.table} is no source of this table")
    for field, names in (("select", list(spec.select)), ("aggregates", spec.columns)):
        if len({name.lower() for name in names}) != len(names):
            raise _fail(field, "two columns differ in upper and lower case only, or not at all")
    for name, text in spec.aggregates.items():
        found = _parsed(f"aggregates.{name}", text)
        if not found.aggregates:
            raise _fail(f"aggregates.{name}", "an aggregate such as sum(amount) is wanted")
        for column in found.columns:
            if column.table or column.column not in spec.select:
                raise _fail(f"aggregates.{name}", f"{column.column} is no column of select")


def _check_key(spec: TableSpec) -> None:
    if bool(spec.group_by) != bool(spec.aggregates):
        raise _fail("group_by" if spec.aggregates else "aggregates", "group_by and aggregates go together")
    for field, names in (("key", spec.key), ("group_by", spec.group_by)):
        if len(set(names)) != len(names):
            raise _fail(field, "a column is named twice")
        for name in names:
            if name not in spec.select:
                raise _fail(field, f"{name} is no column of select")
    if spec.group_by:
        if spec.key and sorted(spec.key) != sorted(spec.group_by):
            raise _fail("key", "the key of a summary table is its group_by")
        spec.key = list(spec.group_by)
        return
    if not spec.key:
        raise _fail("key", "the columns of select that are the fact's key are wanted")
    for name in spec.key:
        plain = spec.expression(name).plain
        if plain is None or plain.table != spec.fact.alias:
            raise _fail("key", f"{name} must be a column of the fact {spec.fact.alias} as it is")
    for number, dimension in enumerate(spec.dimensions):
        targets = sorted(_target(spec, text).column for text in dimension.on.values())
        if dimension.join == "full" and targets != sorted(spec.fact_key()):
            raise _fail(
                f"dimensions.{number}.on", "a full join is on the fact's key, all of it and nothing else"
            )


def _check_partial(spec: TableSpec) -> None:
    places = ["fact", *(f"dimensions.{number}" for number in range(len(spec.dimensions)))]
    partial = {side.alias for side in spec.sides if side.partial_update}
    for place, side in zip(places, spec.sides, strict=True):
        dimension = side if isinstance(side, Dimension) else None
        if side.partial_update and spec.group_by:
            raise _fail(f"{place}.partial_update", "a summary table has no partial update")
        if side.partial_update and (dimension.join == "inner" if dimension else not spec.full):
            raise _fail(f"{place}.partial_update", "a side that can be missing is joined left or full")
        if side.deletes == "keep" and not side.partial_update and (dimension or spec.full or spec.group_by):
            raise _fail(f"{place}.deletes", "to keep what was deleted this needs partial_update")
        if side.read == "window":
            if not side.partial_update:
                raise _fail(
                    f"{place}.read", "what is read by window is often missing: it needs partial_update"
                )
            if dimension and (dimension.pick or dimension.aggregate):
                raise _fail(f"{place}.read", "pick and aggregate need all the rows: read latest")
            if dimension and not dimension.include:
                raise _fail(f"{place}.include", "a source that is read by its changes alone is included")
    condition = spec.condition()
    if condition is not None and any(column.table in partial for column in condition.columns):
        raise _fail("where", "a source with partial_update can be missing: no row depends on it")
