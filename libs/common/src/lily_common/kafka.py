"""Kafka for asyncio services: a producer whose acknowledgement is one future per request, and client settings.

librdkafka does the batching, retrying and partitioning in its own threads. Python's part per message is one
`produce` call and one callback that counts down; the event loop is woken once per request, not per message.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as _Producer

from lily_common.errors import UnavailableError
from lily_common.logs import get_logger

log = get_logger(__name__)

#: How long a message may take to be acknowledged before the request is answered 503, in milliseconds.
DELIVERY_TIMEOUT_MS = 10_000


def producer_config(bootstrap: str, **overrides: Any) -> dict[str, Any]:
    """Settings for no loss (all in-sync replicas, idempotent) at a linger that latency can bear.

    `murmur2_random` is the Java clients' partitioner: everyone who writes a key picks the same partition.
    """
    return {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 1,
        "batch.num.messages": 10_000,
        "queue.buffering.max.messages": 500_000,
        "queue.buffering.max.kbytes": 262_144,
        "compression.type": "lz4",
        "partitioner": "murmur2_random",
        "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
        "message.max.bytes": 10_000_000,
        "allow.auto.create.topics": False,
        **overrides,
    }


def consumer_config(bootstrap: str, group: str, **overrides: Any) -> dict[str, Any]:
    """Settings of a consumer that commits by itself, after its work, and reads from the start when new."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 50,
        "allow.auto.create.topics": False,
        **overrides,
    }


@dataclass(slots=True)
class Record:
    """One message to produce. `headers` as (name, bytes) pairs."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = field(default_factory=tuple)


class _Batch:
    """Counts down the acknowledgements of one `send`; callbacks arrive on the poll thread alone."""

    __slots__ = ("_future", "_loop", "error", "pending")

    def __init__(self, loop: asyncio.AbstractEventLoop, pending: int) -> None:
        self._loop = loop
        self._future: asyncio.Future[None] = loop.create_future()
        self.pending = pending
        self.error: str | None = None

    def delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.error = error.str()
        self.pending -= 1
        if self.pending == 0:
            self._loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        if self._future.done():  # the request was cancelled
            return
        if self.error is None:
            self._future.set_result(None)
        else:
            self._future.set_exception(UnavailableError(f"Kafka did not acknowledge: {self.error}"))

    async def wait(self) -> None:
        await self._future


class Producer:
    """An asyncio producer over confluent-kafka. Make it in a running loop's process, `close()` it at the end."""

    def __init__(self, bootstrap: str, **overrides: Any) -> None:
        self._producer = _Producer(producer_config(bootstrap, **overrides))
        self._running = True
        self._thread = threading.Thread(target=self._poll, name="kafka-producer-poll", daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while self._running:
            self._producer.poll(0.1)

    async def send(self, records: Sequence[Record]) -> None:
        """Return when every record is acknowledged by all in-sync replicas.

        Raises UnavailableError (503) when any is not, or when the local queue is full; some of the records may
        then be in Kafka all the same, so the caller must not claim that nothing was written.
        """
        if not records:
            return
        batch = _Batch(asyncio.get_running_loop(), len(records))
        queued = 0
        produce = self._producer.produce
        try:
            for record in records:
                produce(
                    record.topic,
                    record.value,
                    record.key,
                    on_delivery=batch.delivered,
                    headers=list(record.headers) or None,
                )
                queued += 1
        except (BufferError, KafkaException) as full:
            log.warning("produce refused", error=str(full), queued=queued, of=len(records))
            raise UnavailableError("the ingest queue is full, try again", code="overloaded") from full
        await batch.wait()

    @property
    def queued(self) -> int:
        """Messages not yet acknowledged."""
        return len(self._producer)

    def partitions(self, topic: str, timeout: float = 2.0) -> int:
        """Number of partitions, asked from the broker. Raises KafkaException when it does not answer."""
        return len(self._producer.list_topics(topic, timeout=timeout).topics[topic].partitions)

    def close(self, timeout: float = 10.0) -> int:
        """Flush and stop; returns how many messages were left unacknowledged."""
        left = self._producer.flush(timeout)
        self._running = False
        self._thread.join(timeout=2.0)
        return int(left)


def header(headers: Iterable[tuple[str, bytes | str | None]] | None, name: str) -> bytes | None:
    """The first header of that name as bytes, or None."""
    for key, value in headers or ():
        if key == name and value is not None:
            return value if isinstance(value, bytes) else value.encode()
    return None
