"""One refresh of one table: what changed, which facts that touches, what becomes of them, one commit.

Everything is read at versions that are fixed at the start and told in the commit. Recomputing is from the newest state
of every source, so that a refresh which is done twice, after a crash, ends the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lily_common.gold.builtin import table_path
from lily_common.gold.spec import TableSpec
from lily_common.logs import get_logger
from lily_spark.config import SparkSettings
from lily_spark.gold.drift import Drift, examples
from lily_spark.gold.keys import Touched, touched
from lily_spark.gold.merging import OP, REMOVE, UPSERT
from lily_spark.gold.plan import Plan, resolve
from lily_spark.gold.rows import Rows
from lily_spark.gold.target import State, Target
from lily_spark.storage.snapshots import Span, TooManyChangesError, VersionGoneError, is_gone, version_at

log = get_logger(__name__)
INCREMENTAL, FULL = "incremental", "full"
_FULL_PARTITIONS = "16"


class Refresher:
    """Refreshes one table. For one thread at a time."""

    def __init__(self, spark: SparkSession, settings: SparkSettings, tenant: str, spec: TableSpec) -> None:
        self._spark = spark
        self.settings = settings
        self.tenant = tenant
        self.spec = spec
        self.target = Target(spark, settings, table_path(tenant, spec.name))

    def refresh(self, *, full: bool = False) -> dict[str, Any]:
        """Bring the table up to date and say how: mode, facts, upserted, removed, seconds, …

        `full` computes every row besides, compares and repairs, as the schedule does when its time has come. What makes
        it necessary otherwise is told as `reason`.
        """
        started = time.monotonic()
        plan, versions = self.resolved()
        state = self.target.state(plan)
        reason = why_build(plan, state)
        if state is None or reason is not None:
            done = self._build(plan, versions, state or State(), str(reason))
        else:
            done = self._bring_up(plan, versions, state, full=full or self._full_is_due(state))
        return done | {"seconds": round(time.monotonic() - started, 3)}

    def check(self, *, repair: bool) -> dict[str, Any]:
        """Bring the table up to date, then compare it with a computation of every row; `repair` puts right what differs."""
        started = time.monotonic()
        plan, versions = self.resolved()
        state = self.target.state(plan)
        reason = why_build(plan, state)
        if state is None or reason is not None:
            done = self._build(plan, versions, state or State(), str(reason))
        else:
            done = self._bring_up(plan, versions, state, full=True, repair=repair)
        return done | {"seconds": round(time.monotonic() - started, 3)}

    def resolved(self) -> tuple[Plan, dict[str, int]]:
        """The plan, and the newest version of each source. Raises as `plan.resolve`."""
        plan = resolve(self._spark, self.settings, self.tenant, self.spec)
        return plan, {alias: source.version() for alias, source in plan.sources.items()}

    def _full_is_due(self, state: State) -> bool:
        """Whether the schedule asks for a full refresh now."""
        every = self.spec.full_refresh
        return every is not None and time.time() * 1000 - state.full_at > every * 1000

    def touched(self, plan: Plan, versions: Mapping[str, int], state: State) -> Touched:
        """The facts that the next refresh would recompute. Raises VersionGoneError and TooManyChangesError."""
        self._prepare(full=False)
        return self._changes(plan, versions, state)[0]

    def _bring_up(
        self, plan: Plan, versions: Mapping[str, int], state: State, *, full: bool, repair: bool = True
    ) -> dict[str, Any]:
        reason = why_full(plan, state, versions)
        done: dict[str, Any] = {"mode": INCREMENTAL}
        if reason is None:
            try:
                done |= self._incremental(plan, versions, state)
            except (VersionGoneError, TooManyChangesError) as hindered:
                reason = str(hindered)
            except Exception as failed:
                if not is_gone(failed):
                    raise
                reason = f"a version that is needed is gone: {str(failed).splitlines()[0][:300]}"
        if reason is None and not full:
            return done
        if reason is not None:
            log.warning("incremental table computed anew", table=self.target.path, reason=reason)
        now = self.target.state(plan) or state
        drift = self._compare(plan, versions, now, repair=repair or reason is not None)
        told = {"mode": FULL, "rows": drift.rows, "differing": drift.count, "repaired": drift.repaired}
        if reason is not None:
            return done | told | {"reason": reason}
        return done | told | {"drift": drift.count, "examples": drift.examples}

    def _build(self, plan: Plan, versions: Mapping[str, int], state: State, reason: str) -> dict[str, Any]:
        self._prepare(full=True)
        rows = Rows(plan, self.settings, versions, -1, {})
        self.target.create(plan, rows.whole(), state, versions)
        log.info("incremental table built", table=self.target.path, reason=reason)
        return {"mode": FULL, "reason": reason, "built": True}

    def _incremental(self, plan: Plan, versions: Mapping[str, int], state: State) -> dict[str, Any]:
        self._prepare(full=False)
        found, spans = self._changes(plan, versions, state)
        done = {
            "changes": found.changes,
            "touched": found.facts,
            "facts": found.keys.num_rows,
            "upserted": 0,
            "removed": 0,
        }
        changed: pa.Table | None = None
        if found.keys.num_rows:
            rows = Rows(plan, self.settings, versions, self.target.version(), spans)
            changed = pa.table(rows.changed(found.keys).drop("old").toArrow())
            done |= _counted(changed)
        if changed is None and dict(state.sources or {}) == dict(versions):
            return done
        self.target.commit(plan, _or_empty(changed), state, versions, full=False)
        return done

    def _changes(
        self, plan: Plan, versions: Mapping[str, int], state: State
    ) -> tuple[Touched, dict[str, Span]]:
        limit = self.settings.gold_incremental_rows
        spans = spans_of(self.settings, plan, versions, state, self.spec.overlap)
        try:
            return touched(plan, spans, versions, limit), spans
        except VersionGoneError:
            if not self.spec.overlap:
                raise
        # What is needed is what has not been taken in; the overlap reaches as far as the lake does.
        spans = spans_of(self.settings, plan, versions, state, 0)
        return touched(plan, spans, versions, limit), spans

    def _compare(self, plan: Plan, versions: Mapping[str, int], state: State, *, repair: bool) -> Drift:
        self._prepare(full=True)
        rows = Rows(plan, self.settings, versions, self.target.version(), {})
        different = rows.different().persist()
        try:
            count = different.count()
            shown = examples(plan, different)
            repaired = 0
            if repair and count > self.settings.gold_incremental_rows:
                self._replace(plan, rows, different, state, versions)
                repaired = count
            elif repair:
                self.target.commit(
                    plan, pa.table(different.drop("old").toArrow()), state, versions, full=True
                )
                repaired = count
            held = rows.held().count() if count <= self.settings.gold_incremental_rows else -1
        finally:
            different.unpersist()
        if count:
            log.warning("incremental table differed", table=self.target.path, rows=count, repaired=repaired)
        return Drift(held, count, repaired, shown)

    def _replace(
        self, plan: Plan, rows: Rows, different: DataFrame, state: State, versions: Mapping[str, int]
    ) -> None:
        """More differs than an append should hold: the table with those rows in it takes the table's place."""
        key = list(plan.spec.key)
        held = rows.held()
        stay = held.join(different.select(*key), key, "left_anti")
        new = different.where(f"{OP} = '{UPSERT}'").select(*held.columns)
        self.target.create(plan, stay.unionByName(new), state, versions)

    def _prepare(self, *, full: bool) -> None:
        """Few rows are joined fastest in one partition, many in as many as they need."""
        conf = self._spark.conf
        conf.set("spark.sql.shuffle.partitions", _FULL_PARTITIONS if full else "1")
        conf.set("spark.sql.adaptive.enabled", str(full).lower())


def why_build(plan: Plan, state: State | None) -> str | None:
    """Why the table has to be made anew; None when what is there can be gone on with."""
    if state is None:
        return "there is no table yet"
    if state.declaration != plan.spec.digest:
        return "the declaration is another than the table was made by"
    return None


def why_full(plan: Plan, state: State, versions: Mapping[str, int]) -> str | None:
    """Why every row has to be computed; None when the changes of the sources are enough."""
    for side in plan.spec.sides:
        since = (state.sources or {}).get(side.alias)
        if since is None:
            return f"{side.source} was made anew"
        if versions[side.alias] < since:
            return f"{side.source} went back to an older version"
    return None


def spans_of(
    settings: SparkSettings, plan: Plan, versions: Mapping[str, int], state: State, overlap: int
) -> dict[str, Span]:
    """What each source has to tell, by alias: what came since the last refresh, and what came within `overlap` seconds."""
    spans = {}
    for alias, source in plan.sources.items():
        since = (state.sources or {})[alias]
        first = since + 1
        if overlap:
            before = version_at(settings, source.path, datetime.now(UTC) - timedelta(seconds=overlap))
            first = min(first, before or 0)
        spans[alias] = Span(since, first, versions[alias])
    return spans


def _counted(changed: pa.Table) -> dict[str, int]:
    operations = changed.column(OP).to_pylist()
    return {"upserted": operations.count(UPSERT), "removed": operations.count(REMOVE)}


def _or_empty(changed: pa.Table | None) -> pa.Table:
    return changed if changed is not None else pa.table({OP: pa.array([], pa.string())})
