"""Beside the requests: what the lake job says of commands goes into their rows; forgotten commands are sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from confluent_kafka import Message
from sqlalchemy.exc import SQLAlchemyError

from lily_api.commands import repository, service
from lily_api.consuming import consuming
from lily_api.services import Services
from lily_common.errors import LilyError
from lily_common.events import COMMAND_RESULTS_TOPIC
from lily_common.logs import get_logger

log = get_logger(__name__)
GROUP = "lily-api-command-results"
_BACKOFF_SECONDS = 2.0
_REPUBLISH_AFTER = timedelta(seconds=30)
_STATUSES = frozenset({"running", "succeeded", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Result:
    id: str
    tenant: str
    status: str
    detail: Any


def parse(value: bytes | str | None) -> Result | None:
    """The result in a message, or None when it is not one."""
    try:
        found = orjson.loads(value or b"")
        result = Result(found["id"], found["tenant"], found["status"], found.get("detail"))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    texts = (result.id, result.tenant, result.status)
    return result if all(isinstance(text, str) for text in texts) and result.status in _STATUSES else None


@asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    """Consume for as long as the API runs."""
    every = _REPUBLISH_AFTER.total_seconds()
    async with consuming(services, COMMAND_RESULTS_TOPIC, GROUP, _take, _republish, every):
        yield


async def _take(services: Services, messages: list[Message]) -> None:
    """Write these results, however often it takes."""
    results = [result for message in messages if (result := parse(message.value())) is not None]
    while True:
        try:
            async with services.db.begin() as session:
                for result in results:
                    await repository.advance(session, result.tenant, result.id, result.status, result.detail)
            return
        except (SQLAlchemyError, OSError) as failed:
            log.warning("command results wait for the database", error=str(failed)[:300])
            await asyncio.sleep(_BACKOFF_SECONDS)


async def _republish(services: Services) -> None:
    """Send what was accepted but, for a crash or an absent broker, never reached Kafka."""
    try:
        async with services.db() as session:
            left = await repository.unpublished(session, datetime.now(UTC) - _REPUBLISH_AFTER, 100)
        for command in left:
            await service.publish(services, command)
    except (SQLAlchemyError, LilyError, OSError) as failed:
        log.warning("commands wait to be sent", error=str(failed)[:300])
