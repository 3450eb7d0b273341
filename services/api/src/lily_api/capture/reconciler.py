"""Looks at every source again and again, and at once when one was changed: what a row wants is made true.

A row is looked at by one process at a time (an advisory lock, let go by the database when the process dies). After a
look that found all in order comes a pause; after one that failed a longer one each time. A look at what is settled
already costs two questions to Connect, and repairs what somebody changed there by hand or what Connect has forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api import audit
from lily_api.auth.principal import Principal
from lily_api.capture import repository, steps
from lily_api.capture.client import ConnectAwayError, ConnectClient, ConnectRefusedError
from lily_api.capture.models import REMOVED, CaptureSource
from lily_api.capture.passwords import PasswordFolder
from lily_api.capture.steps import DatabaseRefusesError, SlotLeftError, Tools, UnreachableSourceError
from lily_api.capture.words import shown
from lily_api.services import Services
from lily_common.errors import LilyError
from lily_common.logs import get_logger
from lily_connectors.ssrf import Guard

log = get_logger(__name__)
#: Pauses after failures: doubled each time. What is to be removed may wait longer.
_FIRST, _LONGEST, _LONGEST_REMOVING = timedelta(seconds=2), timedelta(minutes=1), timedelta(minutes=5)
#: A slot that cannot be dropped is given up after so many looks, about three hours, and said so in the audit log.
SLOT_LOOKS = 40
_AT_ONCE = 4
_EXPECTED = (
    UnreachableSourceError,
    DatabaseRefusesError,
    ConnectAwayError,
    ConnectRefusedError,
    LilyError,
    ValueError,
)
_IDLE_SECONDS = 2.0
_CLOSE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Look:
    """What came of a look. `done`: what was wanted is so (of a removal: nothing is left)."""

    done: bool
    problem: str | None = None


class Reconciler:
    """One process's part in it. `tools` is None where no Connect is configured: then nothing is looked at."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._running: dict[str, asyncio.Task[Look | None]] = {}
        self._look_pause = timedelta(seconds=services.settings.capture_look_seconds)
        self.tools = _tools(services)

    async def run(self) -> None:
        """For ever, until cancelled."""
        while True:
            try:
                await self._round()
            except (SQLAlchemyError, OSError) as failed:
                log.warning("sources wait for the database", error=str(failed)[:300])
            await asyncio.sleep(_IDLE_SECONDS)

    async def look(self, tenant: str, connector_id: str, *, within: float) -> Look | None:
        """Look at one source now; None when that takes longer than `within` seconds, or another process is at it.

        The look goes on when the caller no longer waits.
        """
        try:
            async with asyncio.timeout(within):
                return await asyncio.shield(self._task(tenant, connector_id))
        except TimeoutError:
            return None

    async def close(self) -> None:
        """Let looks that are under way end, for a moment; one that is cut off is repeated by whoever comes next."""
        looks = list(self._running.values())
        if looks:
            await asyncio.wait(looks, timeout=_CLOSE_SECONDS)
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)
        if self.tools is not None:
            await self.tools.connect.close()

    async def _round(self) -> None:
        if self.tools is None:
            return
        async with self._services.db() as session:
            due = await repository.due(session, datetime.now(UTC), 10 * _AT_ONCE)
        for tenant, connector_id in due:
            if connector_id not in self._running:
                self._task(tenant, connector_id)

    def _task(self, tenant: str, connector_id: str) -> asyncio.Task[Look | None]:
        """The look at this source: a new one begins after one that is under way, which may not have seen the change."""
        before = self._running.get(connector_id)

        async def after() -> Look | None:
            if before is not None:
                await asyncio.gather(before, return_exceptions=True)
            return await self._look(tenant, connector_id)

        task = asyncio.create_task(after(), name=f"capture-{connector_id}")
        self._running[connector_id] = task

        def forget(done: asyncio.Task[Look | None]) -> None:
            if self._running.get(connector_id) is done:
                del self._running[connector_id]
            if not done.cancelled() and (failed := done.exception()) is not None:
                log.warning("a look at a source ended early", connector=connector_id, error=str(failed)[:300])

        task.add_done_callback(forget)
        return task

    async def _look(self, tenant: str, connector_id: str) -> Look | None:
        if self.tools is None:
            return None
        async with self._slots, self._services.db.begin() as session:
            if not await repository.try_lock(session, connector_id):
                return None
            source = await repository.get(session, tenant, connector_id)
            if source is None:
                return Look(done=True)
            session.expunge(source)
            try:
                if source.wanted == REMOVED:
                    return await self._remove(session, self.tools, source)
                return await self._settle(session, self.tools, source)
            except SQLAlchemyError:
                raise
            except Exception as unexpected:
                log.error("a look at a source broke", connector=connector_id, exc_info=unexpected)
                return await self._again(session, source, "an unexpected error, logged by the API")

    async def _settle(self, session: AsyncSession, tools: Tools, source: CaptureSource) -> Look:
        settled, problem = False, None
        try:
            # A task that failed is started again at the pace of looks that failed.
            found = await steps.settle(tools, source, restart=source.attempts > 0)
        except _EXPECTED as failed:
            problem, failing = _told(tools, source, str(failed)), True
        else:
            settled, failing = True, found.failing
            problem = _told(tools, source, found.trouble) if found.trouble is not None else None
        attempts = source.attempts + 1 if failing else 0
        await repository.looked(
            session,
            source,
            settled=settled,
            problem=problem,
            attempts=attempts,
            pause=_pause(attempts) if failing else self._look_pause,
        )
        if problem is not None:
            log.warning("a source is not as wanted", connector=source.connector_id, problem=problem)
        return Look(done=settled, problem=problem)

    async def _remove(self, session: AsyncSession, tools: Tools, source: CaptureSource) -> Look:
        try:
            await steps.remove(tools, source)
        except SlotLeftError as left:
            problem = _told(tools, source, str(left), whole=True)
            if source.attempts < SLOT_LOOKS:
                return await self._again(session, source, problem)
            await repository.remove(session, source)
            await _record_slot(session, source, problem)
            return Look(done=True, problem=problem)
        except _EXPECTED as failed:
            return await self._again(session, source, _told(tools, source, str(failed)))
        await repository.remove(session, source)
        return Look(done=True)

    async def _again(self, session: AsyncSession, source: CaptureSource, problem: str) -> Look:
        log.warning("a source is not as wanted", connector=source.connector_id, problem=problem)
        attempts = source.attempts + 1
        await repository.looked(
            session,
            source,
            settled=False,
            problem=problem,
            attempts=attempts,
            pause=_pause(attempts, _LONGEST_REMOVING),
        )
        return Look(done=False, problem=problem)


def _tools(services: Services) -> Tools | None:
    settings = services.settings
    if not settings.connect_url or settings.connect_secrets_dir is None:
        return None
    return Tools(
        connect=ConnectClient(settings.connect_url),
        passwords=PasswordFolder(settings.connect_secrets_dir.absolute()),
        producer=services.producer,
        secrets=services.secrets,
        guard=Guard(settings.egress_allow_networks),
    )


def _pause(attempts: int, longest: timedelta = _LONGEST) -> timedelta:
    return min(_FIRST * (1 << min(attempts, 10)), longest)


def _told(tools: Tools, source: CaptureSource, text: str, *, whole: bool = False) -> str:
    try:
        _, password = steps.opened(tools.secrets, source)
    except ValueError:
        password = None
    return shown(text, password, whole=whole)


async def _record_slot(session: AsyncSession, source: CaptureSource, problem: str) -> None:
    """The last that is said of a slot that stays: it is its owner's now."""
    lily = Principal(tenant=source.tenant, subject="lily", scopes=frozenset())
    detail = {"source": source.source, "problem": problem}
    await audit.record(
        session, lily, "connector.slot-left", f"connector:{source.connector_id}", detail, outcome="failed"
    )


@asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    """Beside the requests, for as long as the API runs."""
    reconciler = Reconciler(services)
    services.put(reconciler)
    task = asyncio.create_task(reconciler.run(), name="capture-reconciler")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await reconciler.close()
