"""A stream's frames: events that pass its filter, and heartbeats that move the client's position along."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from confluent_kafka import KafkaException
from sse_starlette import ServerSentEvent

from lily_api.stream import positions as ids
from lily_api.stream.filters import StreamFilter
from lily_api.stream.follow import follow
from lily_api.stream.hub import StreamHub
from lily_api.stream.positions import Positions
from lily_common.logs import get_logger

log = get_logger(__name__)
HEARTBEAT_SECONDS = 10.0
RETRY_MS = 2_000
#: A stream ends after this long: the client comes back by itself, and its credential is checked again.
LIFETIME_SECONDS = 900.0


async def frames(
    hub: StreamHub, tenant: str, positions: Positions, wanted: StreamFilter
) -> AsyncIterator[ServerSentEvent]:
    """Frames from `positions` on. The id of each says where to go on after it, also of those without data."""
    loop = asyncio.get_running_loop()
    end = loop.time() + LIFETIME_SECONDS
    last_frame = loop.time()
    yield ServerSentEvent(comment="open", id=ids.encode(positions), retry=RETRY_MS)
    async with hub.source(tenant) as source:
        try:
            async for entry in follow(source, positions, HEARTBEAT_SECONDS):
                now = loop.time()
                if entry is not None and (wanted.passes_all or wanted.matches(entry.event)):
                    yield ServerSentEvent(
                        entry.value.decode(), event=str(entry.event.get("type", "")), id=ids.encode(positions)
                    )
                    last_frame = now
                elif now - last_frame >= HEARTBEAT_SECONDS or entry is None:
                    yield ServerSentEvent(comment="heartbeat", id=ids.encode(positions))
                    last_frame = now
                if now >= end:
                    return
        except KafkaException as failed:
            # The answer is under way: ending it makes the client come back to where it was.
            log.warning("stream ended, Kafka is not answering", error=str(failed)[:300])
