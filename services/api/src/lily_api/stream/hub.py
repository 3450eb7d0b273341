"""The process's feeds: one per tenant with streams, kept a while after the last has gone."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from confluent_kafka import KafkaException

from lily_api.services import Services
from lily_api.stream.feed import Feed
from lily_api.stream.follow import Source, clamp
from lily_api.stream.positions import Positions
from lily_api.stream.topic import TopicReader
from lily_common.errors import UnavailableError
from lily_common.events import tenant_events_topic

MAX_STREAMS_PER_TENANT = 20
_LINGER_SECONDS = 30.0
_READY_SECONDS = 10.0
_CATCHING_UP = 4


class StreamHub:
    """Hands out sources; lives in the event loop."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._feeds: dict[str, Feed] = {}
        self._streams: Counter[str] = Counter()
        self._slots = asyncio.Semaphore(_CATCHING_UP)

    async def prepare(self, tenant: str, resume: Positions | None) -> Positions:
        """Where a stream of the tenant begins: at `resume`, or now. Raises UnavailableError (503) when the tenant
        has all the streams it may have, or when Kafka does not answer."""
        self._check_room(tenant)
        feed = self._feed(tenant)
        if not await feed.ready(_READY_SECONDS):
            raise UnavailableError("Kafka is not answering, try again")
        if resume is None:
            return dict(feed.ends)
        if any(at > feed.ends.get(partition, 0) for partition, at in resume.items()):
            # Perhaps the feed is a moment behind; perhaps the topic was made anew. Kafka knows.
            clamp(resume, await asyncio.to_thread(self._bounds, feed.topic))
        return resume

    @asynccontextmanager
    async def source(self, tenant: str) -> AsyncIterator[Source]:
        """The tenant's source while a stream is open. Raises UnavailableError when it has all it may have."""
        self._check_room(tenant)
        self._streams[tenant] += 1
        try:
            yield Source(self._feed(tenant), self._bootstrap, self._slots)
        finally:
            self._streams[tenant] -= 1
            asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._close_unused, tenant)

    def close(self) -> None:
        for feed in self._feeds.values():
            feed.close()

    def _check_room(self, tenant: str) -> None:
        if self._streams[tenant] >= MAX_STREAMS_PER_TENANT:
            message = f"the tenant has {MAX_STREAMS_PER_TENANT} streams open already"
            raise UnavailableError(message, "too-many-streams", retry_after=10)

    def _feed(self, tenant: str) -> Feed:
        feed = self._feeds.get(tenant)
        if feed is None:
            feed = self._feeds[tenant] = Feed(self._bootstrap, tenant_events_topic(tenant))
            asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._close_unused, tenant)
        return feed

    def _close_unused(self, tenant: str) -> None:
        if not self._streams[tenant]:
            del self._streams[tenant]
            if feed := self._feeds.pop(tenant, None):
                feed.close()

    def _bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        reader = TopicReader(self._bootstrap, topic)
        try:
            return reader.bounds()
        except KafkaException as failed:
            raise UnavailableError("Kafka is not answering, try again") from failed
        finally:
            reader.close()


@asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    hub = StreamHub(services.settings.kafka_bootstrap)
    services.put(hub)
    try:
        yield
    finally:
        hub.close()
