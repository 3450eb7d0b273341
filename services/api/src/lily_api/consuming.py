"""A Kafka topic that the API consumes beside its requests, with a look at what is left to do every now and then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

from confluent_kafka import Consumer, KafkaException, Message

from lily_api.services import Services
from lily_common.kafka import consumer_config

_POLL_SECONDS = 0.25
Take = Callable[[Services, list[Message]], Awaitable[None]]
Look = Callable[[Services], Awaitable[None]]


@asynccontextmanager
async def consuming(
    services: Services, topic: str, group: str, take: Take, look: Look, every: float
) -> AsyncIterator[None]:
    """Consume for as long as the context lasts: `take` gets the messages, then their offsets are committed.

    `take` returns only when its work is durable; it may get a message again. `look` runs at once and each `every`
    seconds.
    """
    with ThreadPoolExecutor(1, thread_name_prefix=group) as thread:
        task = asyncio.create_task(_consume(services, topic, group, take, look, every, thread), name=group)
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _consume(
    services: Services,
    topic: str,
    group: str,
    take: Take,
    look: Look,
    every: float,
    thread: ThreadPoolExecutor,
) -> None:
    loop = asyncio.get_running_loop()
    consumer = Consumer(consumer_config(services.settings.kafka_bootstrap, group))
    consumer.subscribe([topic])
    next_look = loop.time()
    try:
        while True:
            messages = await loop.run_in_executor(thread, consumer.consume, 100, _POLL_SECONDS)
            if messages:
                await take(services, [message for message in messages if message.error() is None])
                with suppress(KafkaException):  # not committed: taken once more, which changes nothing
                    await loop.run_in_executor(thread, lambda: consumer.commit(asynchronous=False))
            if loop.time() >= next_look:
                next_look = loop.time() + every
                await look(services)
    finally:
        await asyncio.shield(loop.run_in_executor(thread, consumer.close))
