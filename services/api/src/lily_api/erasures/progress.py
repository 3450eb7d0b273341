"""Beside the requests: what the lake job says of erasures goes into their rows, and each is led to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import psycopg
from confluent_kafka import KafkaException, Message
from sqlalchemy.exc import SQLAlchemyError

from lily_api.commands.results import Result
from lily_api.commands.results import parse as parse_result
from lily_api.consuming import consuming
from lily_api.erasures import repository, service
from lily_api.services import Services
from lily_common.errors import LilyError
from lily_common.events import COMMAND_RESULTS_TOPIC
from lily_common.logs import get_logger

log = get_logger(__name__)
GROUP = "lily-api-erasures"
COMMAND = "erase"
_BACKOFF_SECONDS = 2.0
_LOOK_SECONDS = 2.0


def parse(value: bytes | str | None) -> Result | None:
    """The lake's word on an erasure in a message; None when it is about something else."""
    result = parse_result(value)
    return result if result is not None and orjson.loads(value or b"").get("command") == COMMAND else None


@asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    """Consume for as long as the API runs."""
    async with consuming(services, COMMAND_RESULTS_TOPIC, GROUP, _take, _look, _LOOK_SECONDS):
        yield


async def _take(services: Services, messages: list[Message]) -> None:
    """Write these words, however often it takes."""
    for result in [found for message in messages if (found := parse(message.value())) is not None]:
        while True:
            try:
                await service.take(services, result.tenant, result.id, result.status, result.detail)
                break
            except (SQLAlchemyError, OSError) as failed:
                log.warning("progress of erasures waits for the database", error=str(failed)[:300])
                await asyncio.sleep(_BACKOFF_SECONDS)


async def _look(services: Services) -> None:
    try:
        async with services.db() as session:
            waiting = await repository.unfinished(session)
    except (SQLAlchemyError, OSError) as failed:
        log.warning("erasures wait for the database", error=str(failed)[:300])
        return
    for tenant, erasure_id in waiting:
        try:
            await service.advance(services, tenant, erasure_id)
        except (SQLAlchemyError, psycopg.Error, KafkaException, LilyError, OSError) as failed:
            log.warning("an erasure does not get on", id=erasure_id, error=str(failed)[:300])
