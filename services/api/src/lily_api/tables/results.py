"""Beside the requests: what the lake job says of refreshes goes into rows; forgotten declarations are sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from confluent_kafka import Message
from sqlalchemy.exc import SQLAlchemyError

from lily_api.consuming import consuming
from lily_api.services import Services
from lily_api.tables import repository, service
from lily_common.errors import LilyError
from lily_common.events import TABLE_REFRESHES_TOPIC
from lily_common.logs import get_logger

log = get_logger(__name__)
GROUP = "lily-api-table-refreshes"
_BACKOFF_SECONDS = 2.0
_REPUBLISH_AFTER = timedelta(seconds=30)
_PAGE = 200
_TEXTS = ("tenant", "table", "status", "at")


def parse(value: bytes | str | None) -> dict[str, Any] | None:
    """The refresh in a message, or None when it is not one."""
    try:
        found: Any = orjson.loads(value or b"")
        if all(isinstance(found[name], str) for name in _TEXTS) and isinstance(found["detail"], dict):
            aware = datetime.fromisoformat(found["at"]).tzinfo is not None
            return dict(found) if aware and found["status"] in ("succeeded", "failed") else None
    except (ValueError, TypeError, KeyError):
        pass
    return None


@asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    """Consume for as long as the API runs; at the start the topic is brought in line with the database."""
    republish_all = asyncio.create_task(_republish_all(services), name="publish-tables")
    every = _REPUBLISH_AFTER.total_seconds()
    try:
        async with consuming(services, TABLE_REFRESHES_TOPIC, GROUP, _take, _republish, every):
            yield
    finally:
        republish_all.cancel()
        await asyncio.gather(republish_all, return_exceptions=True)


async def _take(services: Services, messages: list[Message]) -> None:
    """Write these refreshes, however often it takes."""
    refreshes = [found for message in messages if (found := parse(message.value())) is not None]
    while True:
        try:
            async with services.db.begin() as session:
                for refresh in refreshes:
                    await service.keep_refresh(session, refresh)
            return
        except (SQLAlchemyError, OSError) as failed:
            log.warning("refreshes of tables wait for the database", error=str(failed)[:300])
            await asyncio.sleep(_BACKOFF_SECONDS)


async def _republish(services: Services) -> None:
    """Send what was declared or deleted but, for a crash or an absent broker, never reached Kafka."""
    try:
        async with services.db() as session:
            left = await repository.unpublished(session, datetime.now(UTC) - _REPUBLISH_AFTER, 100)
        for tenant, name in left:
            await service.publish(services, tenant, name)
    except (SQLAlchemyError, LilyError, OSError) as failed:
        log.warning("declarations of tables wait to be sent", error=str(failed)[:300])


async def _republish_all(services: Services) -> None:
    """Until it succeeds: an API whose Kafka is away still starts."""
    after = ("", "")
    while True:
        try:
            async with services.db() as session:
                page = await repository.every(session, after, _PAGE)
            for tenant, name in page:
                await service.publish(services, tenant, name)
                after = (tenant, name)
            if not page:
                return
        except (SQLAlchemyError, LilyError, OSError) as failed:
            log.warning("declarations of tables wait to be sent", error=str(failed)[:300])
            await asyncio.sleep(_BACKOFF_SECONDS)
