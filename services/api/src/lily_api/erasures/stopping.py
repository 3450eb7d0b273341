"""The stop-list at the API's own door: read from PostgreSQL, looked at by every request that brings events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime

from sqlalchemy.exc import SQLAlchemyError

from lily_api.erasures import repository
from lily_api.services import Services
from lily_common.erasing.digests import DigestKey
from lily_common.erasing.stoplist import Matcher, StopList
from lily_common.errors import InvalidInputError
from lily_common.logs import get_logger

log = get_logger(__name__)
#: Another process's erasures are known here after so long, in seconds; the lake stops what slips through.
_EVERY_SECONDS = 1.0


class Erased:
    """What is erased, as this process knows it."""

    def __init__(self, key: DigestKey) -> None:
        self.key = key
        self._stamp: tuple[int, datetime | None] | None = None
        self._list = StopList(key)

    def of(self, tenant: str) -> Matcher | None:
        """None for a tenant that never had anything erased."""
        return self._list.of(tenant)

    async def refresh(self, services: Services) -> None:
        """Read the list when it has changed."""
        async with services.db() as session:
            stamp = await repository.stamp(session)
            if stamp != self._stamp:
                rows = await repository.everything(session)
                self._list, self._stamp = StopList(self.key, [row.entry for row in rows]), stamp


class ErasedError(InvalidInputError):
    """An event names, or is about, something that was erased."""

    def __init__(self) -> None:
        super().__init__("this names something that was erased: it is not taken again", code="erased")
        self.title = "Erased"


@asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    """Keep the list fresh for as long as the API runs."""
    erased = Erased(DigestKey(services.settings.master_key_bytes))
    services.put(erased)
    await _refresh(services, erased)
    task = asyncio.create_task(_keep(services, erased), name="stop-list")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _keep(services: Services, erased: Erased) -> None:
    while True:
        await asyncio.sleep(_EVERY_SECONDS)
        await _refresh(services, erased)


async def _refresh(services: Services, erased: Erased) -> None:
    try:
        await erased.refresh(services)
    except (SQLAlchemyError, OSError) as failed:
        log.warning("the stop-list waits for the database", error=str(failed)[:300])
