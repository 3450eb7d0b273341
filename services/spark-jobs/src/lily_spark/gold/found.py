"""What a refresh needs of each source for the facts that it recomputes, found before Spark has to plan anything."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lily_common.gold.spec import Dimension, Side
from lily_spark.gold.keys import key_names, known
from lily_spark.gold.plan import Plan
from lily_spark.gold.scan import distinct, only, typed
from lily_spark.gold.sources import DELETED, KNOWN, UNAVAILABLE, VERSION, RowSource, Source
from lily_spark.storage.snapshots import CHANGE, Span, changes

_ROWS = ["insert", "update_postimage"]


def found_of(
    plan: Plan, versions: Mapping[str, int], spans: Mapping[str, Span], keys: pa.Table, limit: int
) -> dict[str, pa.Table]:
    """By alias what `Source.frame` takes, for facts of these keys (`__k0`, …).

    No `spans`: sources that are read by window are read whole, too. Raises VersionGoneError, TooManyChangesError.
    """
    spec = plan.spec
    found: dict[str, pa.Table] = {}

    def read(side: Side, by: list[str], values: pa.Table) -> pa.Table:
        source = plan.sources[side.alias]
        values = known(values, values.column_names)
        if side.read == "window" and spans and isinstance(source, RowSource):
            return _window(plan, side, source, spans[side.alias], by, values, limit)
        return source.find(versions[side.alias], plan.needed[side.alias], by, values)

    found[spec.fact.alias] = read(spec.fact, list(plan.fact_key), keys.select(key_names(plan)))
    for dimension in spec.dimensions:
        by, values = _values(plan, dimension, found, keys)
        found[dimension.alias] = read(dimension, by, values)
    return found


def _values(
    plan: Plan, dimension: Dimension, found: Mapping[str, pa.Table], keys: pa.Table
) -> tuple[list[str], pa.Table]:
    """Columns of the dimension and the values that are sought in them. A part of the condition finds enough."""
    names = dict(zip(plan.fact_key, key_names(plan), strict=True))
    targets = {column: plan.spec.target(dimension, column) for column in dimension.on}
    fact = plan.spec.fact.alias
    if all(target.table == fact and target.column in names for target in targets.values()):
        return list(targets), keys.select([names[target.column] for target in targets.values()])
    aliases = {target.table for target in targets.values()}
    alias = fact if fact in aliases else sorted(aliases)[0]
    by = [column for column, target in targets.items() if target.table == alias]
    columns = [targets[column].column for column in by]
    source: Source = plan.sources[alias]
    held = source.values(found[alias], list(dict.fromkeys(columns)))
    return by, pa.table([held.column(name) for name in columns], names=by)


def _window(
    plan: Plan, side: Side, source: RowSource, span: Span, by: list[str], values: pa.Table, limit: int
) -> pa.Table:
    """Rows that the span changed, and no others: what was not changed is missing."""
    held = [VERSION, DELETED, UNAVAILABLE, KNOWN]
    wanted = list(dict.fromkeys([*source.key, *plan.needed[side.alias], *by, *held]))
    rows = changes(source.settings, source.path, span, wanted, limit, kinds=True)
    # What was taken out of the files themselves (an erasure, a table emptied) is no row.
    rows = rows.filter(pc.is_in(rows.column(CHANGE), pa.array(_ROWS))).drop_columns([CHANGE])
    return only(rows, by, distinct(typed(values, by, source.schema)))
