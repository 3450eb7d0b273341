"""Which facts a refresh recomputes: those that changed, and those that changed rows of dimensions touch.

A dimension's row touches the fact that it points to and the one that it pointed to before. Where that cannot be told
exactly, more facts are taken, never fewer: a fact that is recomputed needlessly comes out as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lily_common.gold.spec import Dimension, Side
from lily_spark.gold.plan import Plan
from lily_spark.gold.scan import distinct, typed
from lily_spark.storage.snapshots import Span, TooManyChangesError

#: The column that names the sides of which a change concerns a fact.
SPOKE = "__spoke"
_DELETED = pa.field("deleted", pa.bool_())


def key_names(plan: Plan) -> list[str]:
    return [f"__k{number}" for number in range(len(plan.fact_key))]


@dataclass
class Touched:
    """`keys`: the facts' keys (`__k0`, …), each once, and `__spoke`: the sides of which a change concerns that fact.

    `changes` counts rows by side as they were changed, `facts` the facts that each side touches.
    """

    keys: pa.Table
    changes: dict[str, int] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)


def touched(plan: Plan, spans: Mapping[str, Span], versions: Mapping[str, int], limit: int) -> Touched:
    """The facts touched by what changed in these spans, by alias of the source; `versions` are those of now.

    Raises TooManyChangesError when they are more than `limit`, VersionGoneError when a version is gone.
    """
    parts: list[pa.Table] = []
    result = Touched(pa.table({}))
    for side in plan.spec.sides:
        if isinstance(side, Dimension) and not side.include:
            continue
        changes, keys = touched_by(plan, side, spans[side.alias], versions, limit)
        result.changes[side.alias] = changes
        result.facts[side.alias] = keys.num_rows
        parts.append(keys.append_column("alias", pa.array([side.alias] * keys.num_rows, pa.string())))
    result.keys = _together(plan, parts)
    if result.keys.num_rows > limit:
        raise TooManyChangesError(f"more than {limit} facts are touched")
    return result


def touched_by(
    plan: Plan, side: Side, span: Span, versions: Mapping[str, int], limit: int
) -> tuple[int, pa.Table]:
    """How many rows of the side the span changed, and the keys of the facts that these touch, each once.

    Raises as `touched`.
    """
    source = plan.sources[side.alias]
    if isinstance(side, Dimension):
        on = list(side.on)
        changed = source.changed(span, on, limit)
        keys = _facts(plan, side, known(changed, on), versions)
    else:
        changed = source.changed(span, plan.fact_key, limit)
        keys = _renamed(plan, changed)
    if keys.num_rows > limit:
        raise TooManyChangesError(f"changes of {side.alias} touch more than {limit} facts")
    if side.deletes == "keep":
        keys = _without_deleted(keys)
    return changed.num_rows, distinct(keys.select(key_names(plan)))


def _facts(plan: Plan, dimension: Dimension, values: pa.Table, versions: Mapping[str, int]) -> pa.Table:
    """Keys of the facts that rows with these values of the dimension's `on` columns belong to, and `deleted`."""
    spec = plan.spec
    targets = {column: spec.target(dimension, column) for column in dimension.on}
    aliases = {target.table for target in targets.values()}
    # A part of the condition finds more facts than the whole would: enough when the rest is of another source.
    alias = spec.fact.alias if spec.fact.alias in aliases else sorted(aliases)[0]
    used: dict[str, str] = {}
    for column, target in targets.items():
        if target.table == alias and target.column not in used.values():
            used[column] = target.column
    values = distinct(values.select([*used, "deleted"])).rename_columns([*used.values(), "deleted"])
    if alias == spec.fact.alias and sorted(used.values()) == sorted(plan.fact_key):
        return _renamed(plan, values)
    if not values.num_rows:
        return _renamed(plan, _none(plan))
    parent = next((other for other in spec.dimensions if other.alias == alias), None)
    wanted = list(parent.on) if parent else list(plan.fact_key)
    source = plan.sources[alias]
    by = list(used.values())
    sought = values.select(by)
    found = source.values(
        source.find(versions[alias], list(dict.fromkeys([*wanted, *by])), by, sought),
        list(dict.fromkeys([*wanted, *by])),
    )
    sought = typed(values, [*by, "deleted"], pa.schema([*map(found.schema.field, by), _DELETED]))
    joined = found.join(sought, by, join_type="inner").select([*wanted, "deleted"])
    if parent is None:
        return _renamed(plan, joined)
    return _facts(plan, parent, known(joined, wanted), versions)


def _renamed(plan: Plan, rows: pa.Table) -> pa.Table:
    """The fact's key columns as `__k0`, …; rows that lack a part of the key are none."""
    own = known(rows, plan.fact_key).select([*plan.fact_key, "deleted"])
    return own.rename_columns([*key_names(plan), "deleted"])


def known(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Rows that have a value in each of these columns: null joins nothing."""
    for name in columns:
        rows = rows.filter(pc.is_valid(rows.column(name)))
    return rows


def _without_deleted(keys: pa.Table) -> pa.Table:
    return keys.filter(pc.invert(keys.column("deleted")))


def _together(plan: Plan, parts: list[pa.Table]) -> pa.Table:
    """Each key once, with the list of the sides that named it."""
    names = key_names(plan)
    parts = [part for part in parts if part.num_rows] or [_none(plan).rename_columns([*names, "alias"])]
    rows = pa.concat_tables(parts, promote_options="permissive")
    grouped = rows.group_by(names).aggregate([("alias", "list")])
    spoke = grouped.column("alias_list").cast(pa.list_(pa.string()))
    return grouped.select(names).append_column(SPOKE, spoke)


def _none(plan: Plan) -> pa.Table:
    fields = [pa.field(name, pa.string()) for name in plan.fact_key]
    return pa.schema([*fields, pa.field("deleted", pa.bool_())]).empty_table()
