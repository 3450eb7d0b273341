"""Lineage as it was: every edge of a tenant after the events accepted up to a time, from bronze.events.

What an edge goes *from* is inside its event, not a column, so a walk would read the table once for each step. Instead
one read takes all the tenant's edges into memory, within bounds, and the walk is done there.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from lily_api.lake.past import left
from lily_api.lake.tables import EVENTS, Tables, literal
from lily_common import events as ev
from lily_common.envelope import rfc3339
from lily_common.errors import InvalidInputError
from lily_common.state import Register, Registers, event_registers

#: More edges than this are not held in memory for one answer.
MAX_EDGES = 100_000
#: Seconds that one read may take.
MAX_SECONDS = 20.0
#: Reads at once in one process.
_AT_ONCE = 2
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class PastEdge:
    """A live edge; `data` is its event's payload."""

    upstream: str
    downstream: str
    via: str
    kind: str
    version: str
    data: dict[str, Any]


@dataclass
class PastGraph:
    """Edges by either end, and the version of the newest delete of each asset that was ever deleted."""

    by_upstream: dict[str, list[PastEdge]] = field(default_factory=lambda: defaultdict(list))
    by_downstream: dict[str, list[PastEdge]] = field(default_factory=lambda: defaultdict(list))
    tombstones: dict[str, str] = field(default_factory=dict)

    def add(self, edge: PastEdge) -> None:
        self.by_upstream[edge.upstream].append(edge)
        self.by_downstream[edge.downstream].append(edge)


class EdgeReader:
    """Reads for one process. Raises InvalidInputError when an answer would cost too much, else as `Tables` does."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def graph(self, tenant: str, at: datetime) -> PastGraph:
        """The tenant's whole graph after the events accepted up to `at`."""
        async with self._slots:
            return await asyncio.to_thread(self._graph, tenant, at)

    async def registers(self, tenant: str, subjects: list[str], at: datetime) -> dict[str, Registers]:
        """The registers of these assets (edges and incidents left out), by name."""
        async with self._slots:
            return await asyncio.to_thread(self._registers, tenant, subjects, at)

    def _graph(self, tenant: str, at: datetime) -> PastGraph:
        newest: dict[tuple[str, str, str], PastEdge | str] = {}
        graph = PastGraph()
        kinds = (ev.EDGE_ADDED, ev.EDGE_REMOVED, ev.ASSET_DELETED)
        condition = f"type IN ({', '.join(map(literal, kinds))})"
        for kind, subject, version, data in self._changes(tenant, at, condition):
            if kind == ev.ASSET_DELETED:
                graph.tombstones[subject] = max(version, graph.tombstones.get(subject, ""))
                continue
            key = (data["upstream"], subject, data.get("via") or "")
            held = newest.get(key)
            if held is not None and version <= (held if isinstance(held, str) else held.version):
                continue
            removed = kind == ev.EDGE_REMOVED
            newest[key] = version if removed else PastEdge(*key, data.get("kind", "table"), version, data)
            if len(newest) > MAX_EDGES:
                raise InvalidInputError(
                    f"the lineage of that time has more than {MAX_EDGES} edges: too many to be walked in the past",
                    code="as-of-too-large",
                )
        for edge in newest.values():
            if isinstance(edge, PastEdge):
                graph.add(edge)
        return graph

    def _registers(self, tenant: str, subjects: list[str], at: datetime) -> dict[str, Registers]:
        found: dict[str, Registers] = {name: {} for name in subjects}
        left_out = (
            ev.EDGE_ADDED,
            ev.EDGE_REMOVED,
            ev.INCIDENT_OPENED,
            ev.INCIDENT_UPDATED,
            ev.INCIDENT_RESOLVED,
        )
        types = ", ".join(literal(kind) for kind in ev.EVENT_TYPES if kind not in left_out)
        for start in range(0, len(subjects), _CHUNK):
            names = ", ".join(map(literal, subjects[start : start + _CHUNK]))
            for subject, *row in left(
                self._tables, tenant, at, f"subject IN ({names}) AND type IN ({types})"
            ):
                key, kind, version, data = row
                _merge(found[subject], [(key, Register(kind, version, orjson.loads(data)))])
            for _, subject, _, text in self._rows(tenant, at, f"type IN ({types}) AND subject IN ({names})"):
                _merge(found[subject], event_registers(orjson.loads(text)).items())
        return found

    def _changes(self, tenant: str, at: datetime, condition: str) -> Iterator[tuple[str, str, str, Any]]:
        """(type, subject, version, payload) of what is left of old events, and of those that are kept."""
        for subject, _, kind, version, data in left(self._tables, tenant, at, condition):
            yield kind, subject, version, orjson.loads(data)
        for kind, subject, version, text in self._rows(tenant, at, condition):
            yield kind, subject, version, orjson.loads(text)["data"]

    def _rows(self, tenant: str, at: datetime, condition: str) -> Iterator[tuple[Any, ...]]:
        """(type, subject, version, event) of the tenant's events accepted up to `at` that fit `condition`."""
        deadline = time.monotonic() + MAX_SECONDS
        predicate = (
            f"tenant = {literal(tenant)} AND date <= '{at.date().isoformat()}' "
            f"AND accepted_time <= '{rfc3339(at)}' AND {condition}"
        )
        for row in self._tables.scan(EVENTS, ["type", "subject", "version", "event"], predicate):
            yield row
            if time.monotonic() > deadline:
                raise InvalidInputError(
                    f"the past up to that time takes more than {MAX_SECONDS:.0f} s to read: ask for an earlier time",
                    code="as-of-too-costly",
                )


def _merge(held: Registers, written: Iterable[tuple[str, Register]]) -> None:
    for key, register in written:
        before = held.get(key)
        if before is None or register.version > before.version:
            held[key] = register
