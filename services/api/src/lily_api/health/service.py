"""Whether the servers behind the API answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from confluent_kafka import KafkaException
from pymongo.errors import PyMongoError
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from lily_api.services import Services
from lily_common.events import PRIORITY_TOPIC

_SECONDS = 2.0
_FAILURES = (KafkaException, KeyError, OSError, PyMongoError, SQLAlchemyError, TimeoutError)


async def checks(services: Services) -> dict[str, str]:
    """Name of each server -> "ok" or what is wrong, all asked at once, none longer than two seconds."""
    named = {"kafka": _kafka(services), "postgresql": _postgresql(services), "mongodb": _mongodb(services)}
    results = await asyncio.gather(*(_outcome(check) for check in named.values()))
    return dict(zip(named, results, strict=True))


async def _outcome(check: Awaitable[None]) -> str:
    try:
        async with asyncio.timeout(_SECONDS + 0.5):
            await check
    except _FAILURES as error:
        # The kind alone: messages hold hosts and users.
        return "no answer in time" if isinstance(error, TimeoutError) else f"failed: {type(error).__name__}"
    return "ok"


async def _kafka(services: Services) -> None:
    if await asyncio.to_thread(services.producer.partitions, PRIORITY_TOPIC, _SECONDS) < 1:
        raise KeyError(PRIORITY_TOPIC)


async def _postgresql(services: Services) -> None:
    async with services.db() as session:
        await session.execute(select(1))


async def _mongodb(services: Services) -> None:
    await services.mongo.command("ping")
