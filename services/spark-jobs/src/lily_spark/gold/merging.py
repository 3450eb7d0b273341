"""What of a table differs from what was computed: the rows to write, and the rows to remove.

A value is kept as it was where it cannot be known now: its side is missing (not deleted, not moved away: simply not
there) and was known before, or the source left the value out of its event.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, FloatType, StructType

from lily_spark.gold.joining import HOLDS, LACKS, PRESENT, dependencies
from lily_spark.gold.keys import SPOKE
from lily_spark.gold.plan import Plan
from lily_spark.layered import quoted

#: Of a table with partial update: which sides a row's values come from.
SIDES = "__sides"
OP, UPSERT, REMOVE = "__op", "u", "d"
_TOLERANCE = 1e-9


def table_columns(plan: Plan) -> list[str]:
    """The table's own columns, SIDES included where it has them."""
    return [*plan.spec.columns, *([SIDES] if plan.partial else [])]


def difference(plan: Plan, rows: DataFrame, held: DataFrame) -> DataFrame:
    """OP and the table's columns of every row of `held` that has to change, and of every row that is new.

    `rows` as `joining.computed` makes them, with SPOKE (the sides of which a change concerns the row); `held` are the
    table's rows of the same keys. A row to remove has its key alone.
    """
    key = list(plan.spec.key)
    new = rows.select(F.struct("*").alias("new"), *(F.col(quoted(name)).alias(f"__n_{name}") for name in key))
    old = held.select(F.struct("*").alias("old"), *(F.col(quoted(name)).alias(f"__o_{name}") for name in key))
    same_key = reduce(Column.__and__, (F.col(f"__n_{name}").eqNullSafe(F.col(f"__o_{name}")) for name in key))
    both = new.join(old, same_key, "full")
    kept = _kept(plan)
    both = both.withColumn("kept", kept)
    present = F.coalesce(F.col(f"new.{PRESENT}"), _none())
    stays = reduce(
        Column.__or__,
        (F.array_contains(F.array_union(present, F.col("kept")), alias) for alias in plan.anchors),
    )
    # Where a row may be without its fact, one of which no source has anything can still be known.
    exists = F.coalesce(F.col(f"new.{HOLDS}"), F.lit(plan.spec.full)) & stays
    left = _left_alone(plan)
    values = _values(plan)
    both = both.select(
        "old",
        F.coalesce(exists, F.lit(False)).alias("exists"),
        F.coalesce(left, F.lit(False)).alias("left_alone"),
        F.struct(*(value.alias(name) for name, value in values.items())).alias("row"),
    )
    return _operations(plan, both, held.schema)


def summary_difference(plan: Plan, rows: DataFrame, held: DataFrame) -> DataFrame:
    """As `difference`, of a summary table: `rows` are its groups, `held` the table's rows of the same groups."""
    key = list(plan.spec.key)
    new = rows.select(F.struct("*").alias("new"), *(F.col(quoted(name)).alias(f"__n_{name}") for name in key))
    old = held.select(F.struct("*").alias("old"), *(F.col(quoted(name)).alias(f"__o_{name}") for name in key))
    same_key = reduce(Column.__and__, (F.col(f"__n_{name}").eqNullSafe(F.col(f"__o_{name}")) for name in key))
    both = new.join(old, same_key, "full").select(
        "old",
        F.col("new").isNotNull().alias("exists"),
        F.lit(False).alias("left_alone"),
        F.struct(
            *(
                F.coalesce(F.col(f"new.{quoted(name)}"), F.col(f"old.{quoted(name)}")).alias(name)
                if name in key
                else F.col(f"new.{quoted(name)}").alias(name)
                for name in plan.spec.columns
            )
        ).alias("row"),
    )
    return _operations(plan, both, held.schema)


def _operations(plan: Plan, both: DataFrame, held: StructType) -> DataFrame:
    """`both`: old (struct, null where there is none), exists, left_alone, row (what the row is to be)."""
    key = plan.spec.key
    columns = table_columns(plan)
    types = {field.name: field.dataType for field in held.fields}
    equal = reduce(Column.__and__, (_same(name, types.get(name)) for name in columns))
    is_new = F.col("old").isNull()
    operation = (
        F.when(F.col("exists") & (is_new | ~equal), F.lit(UPSERT))
        .when(~F.col("exists") & ~is_new & ~F.col("left_alone"), F.lit(REMOVE))
        .alias(OP)
    )
    shown = [
        F.col(f"row.{quoted(name)}").alias(name)
        if name in key
        else F.when(F.col("exists"), F.col(f"row.{quoted(name)}")).alias(name)
        for name in columns
    ]
    return both.select(operation, *shown, "old").where(F.col(OP).isNotNull())


def _kept(plan: Plan) -> Column:
    """Partial sides that were known, are missing now, and of which no change says that they are gone."""
    if not plan.partial:
        return _none()
    known = F.coalesce(F.col(f"old.{SIDES}"), _none())
    may = F.array(*map(F.lit, plan.partial))
    present = F.coalesce(F.col(f"new.{PRESENT}"), _none())
    spoke = F.coalesce(F.col(f"new.{SPOKE}"), _none())
    return F.array_except(F.array_except(F.array_intersect(known, may), present), spoke)


def _left_alone(plan: Plan) -> Column:
    """Rows whose fact was deleted, where the declaration keeps them."""
    if not plan.keeps:
        return F.lit(False)
    present = F.coalesce(F.col(f"new.{PRESENT}"), _none())
    return ~F.array_contains(present, plan.spec.fact.alias)


def _values(plan: Plan) -> dict[str, Column]:
    needs = dependencies(plan)
    present = F.coalesce(F.col(f"new.{PRESENT}"), _none())
    was = F.coalesce(F.col(f"old.{SIDES}"), _none()) if plan.partial else _none()
    values: dict[str, Column] = {}
    for name in plan.spec.columns:
        new, old = F.col(f"new.{quoted(name)}"), F.col(f"old.{quoted(name)}")
        if name in plan.spec.key:
            values[name] = F.coalesce(new, old)
            continue
        sides = [F.lit(alias) for alias in sorted(needs.get(name, {}))]
        missing = F.lit(False)
        if sides and plan.partial:
            # What hangs on a side that is gone, not merely missing, cannot be known any more.
            gone = F.array_except(F.array_except(was, present), F.col("kept"))
            missing = F.arrays_overlap("kept", F.array(*sides)) & ~F.arrays_overlap(gone, F.array(*sides))
        lacking = F.coalesce(F.array_contains(F.col(f"new.{LACKS}"), name), F.lit(False))
        known = F.col("old").isNotNull() & (missing | lacking)
        values[name] = F.when(known, old).otherwise(new)
    if plan.partial:
        values[SIDES] = F.array_sort(F.array_union(present, F.col("kept")))
    return values


def _same(name: str, kind: object) -> Column:
    new, old = F.col(f"row.{quoted(name)}"), F.col(f"old.{quoted(name)}")
    equal = new.eqNullSafe(old)
    if isinstance(kind, DoubleType | FloatType):
        # A sum of such numbers depends on the order in which they come.
        near = F.abs(new - old) <= F.lit(_TOLERANCE) * F.greatest(F.abs(new), F.abs(old))
        return equal | F.coalesce(near, F.lit(False))
    return equal


def _none() -> Column:
    return F.array().cast("array<string>")
