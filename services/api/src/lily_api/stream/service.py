"""A stream's frames: events that pass its filter, and heartbeats that move the client's position along."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from confluent_kafka import KafkaException
from sse_starlette import ServerSentEvent

from lily_api.erasures.stopping import Erased
from lily_api.stream import positions as ids
from lily_api.stream.filters import StreamFilter
from lily_api.stream.follow import Source, follow
from lily_api.stream.hub import StreamHub
from lily_api.stream.positions import Positions
from lily_api.stream.topic import Entry
from lily_common.errors import UnavailableError
from lily_common.logs import get_logger

log = get_logger(__name__)
HEARTBEAT_SECONDS = 10.0
RETRY_MS = 2_000
#: A stream ends after this long: the client comes back by itself, and its credential is checked again.
LIFETIME_SECONDS = 900.0


async def frames(
    hub: StreamHub, erased: Erased, tenant: str, positions: Positions, wanted: StreamFilter
) -> AsyncIterator[ServerSentEvent]:
    """Frames from `positions` on, without what was erased since and Kafka still has.

    The id of each says where to go on after it, also of those without data.
    """
    try:
        async with hub.source(tenant) as source:
            async for frame in _frames(source, positions, _shown(erased, tenant, wanted)):
                yield frame
    except (KafkaException, UnavailableError) as failed:
        # The answer is under way: ending it makes the client come back to where it was.
        log.warning("stream ended", tenant=tenant, reason=str(failed)[:300])


async def _frames(
    source: Source, positions: Positions, shown: Callable[[Entry], bool]
) -> AsyncIterator[ServerSentEvent]:
    loop = asyncio.get_running_loop()
    last_frame = loop.time()
    end = last_frame + LIFETIME_SECONDS
    yield ServerSentEvent(comment="open", id=ids.encode(positions), retry=RETRY_MS)
    async for entry in follow(source, positions, HEARTBEAT_SECONDS):
        now = loop.time()
        if entry is not None and shown(entry):
            kind = str(entry.event.get("type", ""))
            yield ServerSentEvent(entry.value.decode(), event=kind, id=ids.encode(positions))
            last_frame = now
        elif entry is None or now - last_frame >= HEARTBEAT_SECONDS:
            yield ServerSentEvent(comment="heartbeat", id=ids.encode(positions))
            last_frame = now
        if now >= end:
            return


def _shown(erased: Erased, tenant: str, wanted: StreamFilter) -> Callable[[Entry], bool]:
    def shown(entry: Entry) -> bool:
        matcher = erased.of(tenant)
        if matcher is not None and matcher.event(entry.event):
            return False
        return wanted.passes_all or wanted.matches(entry.event)

    return shown
