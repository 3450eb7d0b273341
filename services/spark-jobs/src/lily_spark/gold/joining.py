"""The rows of a table out of its sources: of all facts, or of some.

One struct a side stands in each row under the side's alias, null where the side has no row; expressions then read as
they are written (`payments.status`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lily_common.gold.spec import Dimension, Side
from lily_spark.cdc.tables import literal
from lily_spark.gold.keys import key_names
from lily_spark.gold.plan import Plan
from lily_spark.gold.sources import UNAVAILABLE
from lily_spark.layered import quoted

#: What stands beside a table's columns in a computed row: the sides that have a row; whether the conditions hold;
#: the columns that hang on a value which the source did not send.
PRESENT, HOLDS, LACKS = "__present", "__holds", "__lacks"

#: side -> its rows: the columns that the plan needs, and `__unavailable`
Read = Callable[[Side], DataFrame]


def computed(plan: Plan, read: Read, keys: DataFrame | None) -> DataFrame:
    """The table's key and columns, PRESENT, HOLDS and LACKS: one row a fact key, for `keys` (`__k0`, …) or all.

    Where a row can be without its fact, every given key has a row, also one of which no source knows anything.
    Of a summary table it is the rows before grouping.
    """
    rows = _joined(plan, read, keys)
    spec = plan.spec
    named = dict(zip(spec.key, key_names(plan), strict=True)) if not spec.group_by else {}
    columns = [
        F.col(named[name]).alias(name) if name in named else F.expr(text).alias(name)
        for name, text in spec.select.items()
    ]
    return rows.select(
        *columns, _present(plan).alias(PRESENT), _holds(plan).alias(HOLDS), _lacks(plan).alias(LACKS)
    )


def there(plan: Plan, rows: DataFrame, columns: Sequence[str] = ()) -> DataFrame:
    """Of computed rows those that belong in the table: `columns`, all of `select` when none are named."""
    anchored = reduce(Column.__or__, (F.array_contains(PRESENT, alias) for alias in plan.anchors))
    return rows.where(F.col(HOLDS) & anchored).select(*map(quoted, columns or plan.spec.select))


def grouped(plan: Plan, rows: DataFrame) -> DataFrame:
    """A summary table's rows out of its facts' rows."""
    aggregates = [F.expr(text).alias(name) for name, text in plan.spec.aggregates.items()]
    return rows.groupBy(*plan.spec.group_by).agg(*aggregates)


def _joined(plan: Plan, read: Read, keys: DataFrame | None) -> DataFrame:
    spec = plan.spec
    names = key_names(plan)
    fact = _side(plan, read, spec.fact, plan.fact_key)
    if spec.full or plan.keeps:
        rows = _every_key(plan, read) if keys is None else keys.select(*names)
        rows = _join(rows, fact, names, "left")
    else:
        named = [F.col(f"__j{number}").alias(name) for number, name in enumerate(names)]
        rows = fact.select(*named, quoted(spec.fact.alias))
    for dimension in spec.dimensions:
        side = _side(plan, read, dimension, list(dimension.on))
        how = "inner" if dimension.join == "inner" else "left"
        rows = _join(rows, side, _targets(plan, dimension), how)
    return rows


def _targets(plan: Plan, dimension: Dimension) -> list[str]:
    """What each `on` column is compared with, as a column of the joined rows."""
    names = dict(zip(plan.fact_key, key_names(plan), strict=True))
    found = []
    for column in dimension.on:
        target = plan.spec.target(dimension, column)
        own = names.get(target.column) if target.table == plan.spec.fact.alias else None
        found.append(own or f"{quoted(target.table)}.{quoted(target.column)}")
    return found


def _join(rows: DataFrame, side: DataFrame, targets: Sequence[str], how: str) -> DataFrame:
    conditions = [F.col(target) == F.col(f"__j{number}") for number, target in enumerate(targets)]
    joined = rows.join(side, reduce(Column.__and__, conditions), how)
    return joined.drop(*(f"__j{number}" for number in range(len(targets))))


def _side(plan: Plan, read: Read, side: Side, on: Sequence[str]) -> DataFrame:
    """One row for each combination of values of `on`: those as `__j0`, …, and a struct called as the side is."""
    rows = read(side)
    places = [f"__j{number}" for number in range(len(on))]
    placed = [F.col(quoted(column)).alias(name) for column, name in zip(on, places, strict=True)]
    if isinstance(side, Dimension) and side.aggregate:
        made = [F.expr(text).alias(name) for name, text in side.aggregate.items()]
        given = rows.select(*placed, "*").groupBy(*places).agg(*made)
        none = F.array().cast("array<string>").alias(UNAVAILABLE)
        content = F.struct(*map(quoted, side.aggregate), none)
        return given.select(*places, content.alias(side.alias))
    content = F.struct(*map(quoted, plan.needed[side.alias]), UNAVAILABLE)
    if isinstance(side, Dimension) and side.pick_column:
        # Of rows that match the same fact the one with the greatest value of the column; then the greatest key.
        order = F.struct(quoted(side.pick_column), *map(quoted, plan.sources[side.alias].key))
        whole = rows.select(*placed, content.alias(side.alias), order.alias("__order"))
        return whole.groupBy(*places).agg(F.max_by(side.alias, "__order").alias(side.alias))
    return rows.select(*placed, content.alias(side.alias))


def _every_key(plan: Plan, read: Read) -> DataFrame:
    """The keys of all rows that the fact or a fully joined dimension has."""
    parts = [_keys_of(plan, read(plan.spec.fact), plan.fact_key)]
    for dimension in plan.spec.dimensions:
        if dimension.join == "full":
            by_target = {plan.spec.target(dimension, column).column: column for column in dimension.on}
            parts.append(_keys_of(plan, read(dimension), [by_target[column] for column in plan.fact_key]))
    return reduce(DataFrame.union, parts).dropna().distinct()


def _keys_of(plan: Plan, rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    named = zip(columns, key_names(plan), strict=True)
    return rows.select(*(F.col(quoted(column)).alias(name) for column, name in named))


def _present(plan: Plan) -> Column:
    here = [F.when(F.col(quoted(side.alias)).isNotNull(), F.lit(side.alias)) for side in plan.spec.sides]
    return F.array_compact(F.array(*here))


def _holds(plan: Plan) -> Column:
    return F.coalesce(F.expr(plan.spec.where), F.lit(False)) if plan.spec.where else F.lit(True)


def _lacks(plan: Plan) -> Column:
    """Names of the columns that hang on a value which is not known, as the source left it out."""
    found = []
    for name, needs in dependencies(plan).items():
        for alias, columns in needs.items():
            lists = f"{quoted(alias)}.{UNAVAILABLE}"
            wanted = f"array({', '.join(map(literal, sorted(columns)))})"
            found.append(
                F.expr(f"IF(coalesce(arrays_overlap({lists}, {wanted}), false), {literal(name)}, NULL)")
            )
    if not found:
        return F.array().cast("array<string>")
    return F.array_distinct(F.array_compact(F.array(*found)))


def dependencies(plan: Plan) -> Mapping[str, Mapping[str, set[str]]]:
    """Column of the table -> alias -> columns of that source which its expression reads."""
    needs: dict[str, dict[str, set[str]]] = {}
    for name in plan.spec.select:
        for ref in plan.spec.expression(name).columns:
            needs.setdefault(name, {}).setdefault(ref.table, set()).add(ref.column)
    return needs
