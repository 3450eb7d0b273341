"""Beside the requests: the topics are brought in line with the database at the start, and what was not sent is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from lily_api.declarations import repository, service
from lily_api.services import Services
from lily_common.errors import LilyError
from lily_common.logs import get_logger

log = get_logger(__name__)
_REPUBLISH_AFTER = timedelta(seconds=30)
_BACKOFF_SECONDS = 2.0
_PAGE = 200


@asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    """For as long as the API runs: one whose Kafka is away still starts."""
    task = asyncio.create_task(_run(services), name="publish-declarations")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _run(services: Services) -> None:
    after: repository.Key | None = ("", "", "")
    while True:
        try:
            if after is not None:
                after = await _republish(services, after)
                continue
            await _left(services)
        except (SQLAlchemyError, LilyError, OSError) as failed:
            log.warning("declarations wait to be sent", error=str(failed)[:300])
            await asyncio.sleep(_BACKOFF_SECONDS)
            continue
        await asyncio.sleep(_REPUBLISH_AFTER.total_seconds())


async def _republish(services: Services, after: repository.Key) -> repository.Key | None:
    """Send a page of all declarations; returns the last one's key, None after the last page."""
    async with services.db() as session:
        page = await repository.every(session, after, _PAGE)
    for key in page:
        await service.publish(services, key)
    return page[-1] if page else None


async def _left(services: Services) -> None:
    """Send what was declared or deleted but, for a crash or an absent broker, never reached Kafka."""
    async with services.db() as session:
        left = await repository.unpublished(session, datetime.now(UTC) - _REPUBLISH_AFTER, _PAGE)
    for key in left:
        await service.publish(services, key)
