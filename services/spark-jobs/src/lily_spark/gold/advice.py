"""What a refresh would do, and which dimensions move fast enough for their changes to be worth following."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lily_common.gold.spec import Dimension, Side
from lily_spark.config import SparkSettings
from lily_spark.gold.keys import touched_by
from lily_spark.gold.plan import Plan
from lily_spark.gold.refresh import Refresher, why_build, why_full
from lily_spark.gold.target import State
from lily_spark.storage.snapshots import (
    Span,
    TooManyChangesError,
    VersionGoneError,
    created_at,
    row_count,
    version_at,
)

#: How far back the movement of a source is looked at, at most.
_LOOK_BACK = timedelta(hours=24)
#: A dimension of which so large a part of the table would be stale by the next full refresh is worth including.
_STALE_SHARE = 0.001
INCLUDE, LEAVE = "include", "leave to the full refresh"


def plan(refresher: Refresher) -> dict[str, Any]:
    """What the next refresh would do: `would` (build, full, incremental, nothing), why, and what each source has to tell."""
    resolved, versions = refresher.resolved()
    state = refresher.target.state(resolved)
    reason = why_build(resolved, state)
    if state is None or reason is not None:
        return {"would": "build", "reason": reason, "sources": _sources(resolved, State(), versions)}
    reason = why_full(resolved, state, versions)
    told = _sources(resolved, state, versions)
    if reason is not None:
        return {"would": "full", "reason": reason, "sources": told}
    try:
        found = refresher.touched(resolved, versions, state)
    except (VersionGoneError, TooManyChangesError) as hindered:
        return {"would": "full", "reason": str(hindered), "sources": told}
    for source in told:
        source["changes"] = found.changes.get(source["source"], 0)
        source["facts"] = found.facts.get(source["source"], 0)
    would = "incremental" if found.keys.num_rows else "nothing"
    return {"would": would, "facts": found.keys.num_rows, "sources": told}


def explain(refresher: Refresher) -> dict[str, Any]:
    """How the table is made, and for each source rows upserted and facts touched per hour, with advice."""
    resolved, versions = refresher.resolved()
    spec = resolved.spec
    facts = row_count(refresher.settings, resolved.fact.path)
    full_hours = (spec.full_refresh or 7 * 86_400) / 3600
    moves = [_movement(refresher.settings, resolved, side, versions) for side in spec.sides]
    return {
        "key": spec.key,
        "fact_rows": facts,
        "sources": [
            _advised(side, move, facts, full_hours) for side, move in zip(spec.sides, moves, strict=True)
        ],
        "select": spec.select,
        "where": spec.where,
        "group_by": spec.group_by,
        "aggregates": spec.aggregates,
        "full_refresh_hours": full_hours,
    }


@dataclass(frozen=True)
class _Movement:
    """Of one source in the last `hours`; None where there were more than are counted one by one."""

    hours: float
    rows: int | None
    facts: int | None


def _movement(settings: SparkSettings, plan: Plan, side: Side, versions: Mapping[str, int]) -> _Movement:
    now = datetime.now(UTC)
    path = plan.sources[side.alias].path
    begun = max(created_at(settings, path) or now, now - _LOOK_BACK)
    before = version_at(settings, path, now - _LOOK_BACK)
    last = versions[side.alias]
    # As it is now says which facts its rows belong to; where they were before is of no account here.
    span = Span(last, 0 if before is None else before + 1, last)
    hours = max((now - begun).total_seconds() / 3600, 1 / 60)
    try:
        rows, keys = touched_by(plan, side, span, versions, settings.gold_incremental_rows)
    except (TooManyChangesError, VersionGoneError):
        return _Movement(hours, None, None)
    return _Movement(hours, rows, keys.num_rows)


def _advised(side: Side, move: _Movement, facts: int, full_hours: float) -> dict[str, Any]:
    rows = None if move.rows is None else round(move.rows / move.hours, 1)
    touched = None if move.facts is None else round(move.facts / move.hours, 1)
    found: dict[str, Any] = {
        "source": side.alias,
        "table": side.source,
        "looked_back_hours": round(move.hours, 2),
        "rows_per_hour": rows,
        "facts_per_hour": touched,
    }
    if not isinstance(side, Dimension):
        return found
    stale = 1.0 if touched is None else min(1.0, touched * full_hours / max(facts, 1))
    return found | {
        "on": side.on,
        "join": side.join,
        "included": side.include,
        "stale_by_full_refresh": round(stale, 4),
        "advice": INCLUDE if stale >= _STALE_SHARE else LEAVE,
    }


def _sources(plan: Plan, state: State, versions: Mapping[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "source": side.alias,
            "table": side.source,
            "included": not isinstance(side, Dimension) or side.include,
            "processed": (state.sources or {}).get(side.alias),
            "now": versions[side.alias],
        }
        for side in plan.spec.sides
    ]
