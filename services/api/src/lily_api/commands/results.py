"""Beside the requests: what the lake job says of commands goes into their rows; forgotten commands are sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaException, Message
from sqlalchemy.exc import SQLAlchemyError

from lily_api.commands import repository, service
from lily_api.services import Services
from lily_common.errors import LilyError
from lily_common.events import COMMAND_RESULTS_TOPIC
from lily_common.kafka import consumer_config
from lily_common.logs import get_logger

log = get_logger(__name__)
GROUP = "lily-api-command-results"
_POLL_SECONDS = 0.25
_BACKOFF_SECONDS = 2.0
_REPUBLISH_AFTER = timedelta(seconds=30)
_STATUSES = frozenset({"running", "succeeded", "failed"})


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
    with ThreadPoolExecutor(1, thread_name_prefix="command-results") as thread:
        task = asyncio.create_task(_consume(services, thread))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _consume(services: Services, thread: ThreadPoolExecutor) -> None:
    loop = asyncio.get_running_loop()
    consumer = Consumer(consumer_config(services.settings.kafka_bootstrap, GROUP))
    consumer.subscribe([COMMAND_RESULTS_TOPIC])
    next_look = loop.time()
    try:
        while True:
            messages = await loop.run_in_executor(thread, consumer.consume, 100, _POLL_SECONDS)
            if messages:
                await _take(services, [message for message in messages if message.error() is None])
                with suppress(KafkaException):  # not committed: taken once more, which changes nothing
                    await loop.run_in_executor(thread, lambda: consumer.commit(asynchronous=False))
            if loop.time() >= next_look:
                next_look = loop.time() + _REPUBLISH_AFTER.total_seconds()
                await _republish(services)
    finally:
        await asyncio.shield(loop.run_in_executor(thread, consumer.close))


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
