"""Commits of bronze.events: their numbers and times, from the files' statistics where those are enough."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from lily_api.lake.tables import EVENTS, Tables, literal
from lily_common.envelope import rfc3339

#: A commit is looked for in windows that grow: most are found in the first.
_WINDOWS = (timedelta(hours=1), timedelta(days=1), timedelta(days=30), timedelta(days=36_500))
_TIME = pa.timestamp("us", "UTC")
#: The greatest commit of a file whose statistics do not tell.
_UNKNOWN = 2**62


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit as far as it is one tenant's: when its first and last event were accepted, and how many there are."""

    commit: int
    first_time: datetime
    last_time: datetime
    events: int


@dataclass(frozen=True, slots=True)
class Extent:
    """What is kept of one tenant's stream; times are to the millisecond."""

    first_commit: int
    last_commit: int
    first_time: datetime
    last_time: datetime
    events: int


class CommitReader:
    """Reads for one process; see `Tables` for errors."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._slots = asyncio.Semaphore(2)

    async def find(
        self, tenant: str, since: datetime | None, commit: int | None
    ) -> tuple[Extent | None, Commit | None]:
        """What is kept, and the first commit with an event accepted at `since` or later, or from `commit` on."""
        async with self._slots:
            return await asyncio.to_thread(self._find, tenant, since, commit)

    def _find(
        self, tenant: str, since: datetime | None, commit: int | None
    ) -> tuple[Extent | None, Commit | None]:
        files = self._tables.files(EVENTS)
        if files is not None and files.num_rows:
            files = files.filter(pc.equal(files["partition.tenant"], tenant))
        if files is None or not files.num_rows or "min.commit" not in files.column_names:
            return None, None
        extent = Extent(
            first_commit=pc.min(files["min.commit"]).as_py(),
            last_commit=pc.max(files["max.commit"]).as_py(),
            first_time=pc.min(files["min.accepted_time"].cast(_TIME)).as_py(),
            last_time=pc.max(files["max.accepted_time"].cast(_TIME)).as_py(),
            events=pc.sum(files["num_records"]).as_py(),
        )
        if since is not None:
            return extent, self._at(tenant, since, extent)
        if commit is not None:
            return extent, self._from(tenant, commit, files)
        return extent, None

    def _at(self, tenant: str, since: datetime, extent: Extent) -> Commit | None:
        # Statistics hold milliseconds, cut off.
        end = extent.last_time + timedelta(milliseconds=1)
        start = max(since.astimezone(UTC), extent.first_time)
        if start > end:
            return None
        for window in _WINDOWS:
            found = self._first(tenant, _accepted_between(start, min(start + window, end)))
            if found is not None:
                return self._commit(tenant, found)
        return None

    def _from(self, tenant: str, commit: int, files: pa.Table) -> Commit | None:
        greatest = pc.fill_null(files["max.commit"], _UNKNOWN)
        later = greatest.filter(pc.greater_equal(greatest, commit))
        if not len(later):
            return None
        # The file that ends first ends with a commit that fits; one that fits better is at most as great.
        end = pc.min(later).as_py()
        found = self._first(tenant, f"commit >= {commit} AND commit <= {end}")
        return self._commit(tenant, found) if found is not None else None

    def _first(self, tenant: str, condition: str) -> int | None:
        rows = self._tables.scan(EVENTS, ["commit"], f"tenant = {literal(tenant)} AND {condition}")
        return min((row[0] for row in rows), default=None)

    def _commit(self, tenant: str, number: int) -> Commit:
        condition = f"tenant = {literal(tenant)} AND commit = {number}"
        times = [row[0] for row in self._tables.scan(EVENTS, ["accepted_time"], condition)]
        return Commit(number, min(times), max(times), len(times))


def _accepted_between(start: datetime, until: datetime) -> str:
    return (
        f"date >= '{start.date().isoformat()}' AND date <= '{until.date().isoformat()}' "
        f"AND accepted_time >= '{rfc3339(start)}' AND accepted_time <= '{rfc3339(until)}'"
    )
