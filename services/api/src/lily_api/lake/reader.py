"""What the API asks of the lake: an asset's events, its state at a time, its registers now."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

import orjson

from lily_api.lake.commits import CommitReader
from lily_api.lake.edges import EdgeReader
from lily_api.lake.past import left
from lily_api.lake.rows import RowReader
from lily_api.lake.tables import ASSETS, EVENTS, Tables, literal
from lily_api.lake.tagged import TagReader
from lily_api.services import Services
from lily_common.envelope import rfc3339
from lily_common.state import Register, Registers, event_registers

Answer = TypeVar("Answer")

#: Reads at once in one process; more wait. Each holds a thread and some megabytes of Parquet.
_AT_ONCE = 4
_DAYS_BACK = (7, 30, 365)
_BEGINNING = date(1970, 1, 1)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where an event stands in an asset's history: by acceptance, then version."""

    accepted: datetime
    version: str


@dataclass(frozen=True, slots=True)
class PastEvent:
    place: Place
    event: dict[str, Any]


class LakeReader:
    """Reads for one process; see `Tables` for errors."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def history(
        self, tenant: str, subject: str, *, before: Place | None, limit: int
    ) -> list[PastEvent]:
        """The asset's newest events before `before`, newest first."""
        return await self._run(lambda: self._history(tenant, subject, before, limit))

    async def registers_at(self, tenant: str, subject: str, at: datetime) -> Registers:
        """The asset's registers after all events that were accepted up to `at`.

        Raises InvalidInputError when that is before what is kept.
        """
        return await self._run(lambda: self._fold(tenant, subject, at))

    async def registers_now(self, tenant: str, subject: str) -> Registers:
        """The asset's registers in silver, a few seconds old at most."""
        return await self._run(lambda: self._silver(tenant, subject))

    async def _run(self, read: Callable[[], Answer]) -> Answer:
        async with self._slots:
            return await asyncio.to_thread(read)

    def _history(self, tenant: str, subject: str, before: Place | None, limit: int) -> list[PastEvent]:
        # Newest first means newest partitions first: most histories end in the first, small window.
        last = before.accepted.date() if before else datetime.now(UTC).date()
        found: list[PastEvent] = []
        newest = last + timedelta(days=1) if before is None else last
        for first in [*(last - timedelta(days=days) for days in _DAYS_BACK), _BEGINNING]:
            rows = self._events(tenant, subject, first, newest, before.accepted if before else None)
            earlier = (row for row in rows if before is None or row.place < before)
            found += heapq.nlargest(limit - len(found), earlier, key=lambda row: row.place)
            if len(found) >= limit:
                break
            newest = first - timedelta(days=1)
        return found

    def _fold(self, tenant: str, subject: str, at: datetime) -> Registers:
        before = left(self._tables, tenant, at, f"subject = {literal(subject)}")
        registers = newest(row[1:] for row in before)
        for row in self._events(tenant, subject, _BEGINNING, at.date(), at):
            for key, register in event_registers(row.event).items():
                _keep_newest(registers, key, register)
        return registers

    def _events(
        self, tenant: str, subject: str, first: date, last: date, until: datetime | None
    ) -> Iterator[PastEvent]:
        """Events accepted on the days `first` to `last`, and up to `until`; pruned by partition and subject."""
        conditions = [
            f"date >= '{first.isoformat()}'",
            f"date <= '{last.isoformat()}'",
            f"tenant = {literal(tenant)}",
            f"subject = {literal(subject)}",
        ]
        if until is not None:
            conditions.append(f"accepted_time <= '{rfc3339(until)}'")
        rows = self._tables.scan(EVENTS, ["accepted_time", "version", "event"], " AND ".join(conditions))
        for accepted, version, event in rows:
            yield PastEvent(Place(accepted, version), orjson.loads(event))

    def _silver(self, tenant: str, subject: str) -> Registers:
        rows = self._tables.scan(
            ASSETS,
            ["register", "type", "version", "data"],
            f"tenant = {literal(tenant)} AND subject = {literal(subject)}",
        )
        return newest(rows)


def newest(rows: Iterable[tuple[Any, ...]]) -> Registers:
    """Registers of rows (register, type, version, data), of which several may be of one register."""
    registers: Registers = {}
    for key, kind, version, data in rows:
        _keep_newest(registers, key, Register(kind, version, orjson.loads(data)))
    return registers


def _keep_newest(registers: Registers, key: str, register: Register) -> None:
    held = registers.get(key)
    if held is None or register.version > held.version:
        registers[key] = register


@asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    """Put the process's readers into the services. Nothing is opened before the first read."""
    tables = Tables(services.settings)
    services.put(LakeReader(tables))
    services.put(CommitReader(tables))
    services.put(EdgeReader(tables))
    services.put(RowReader(tables))
    services.put(TagReader(tables))
    yield
