"""Kafka for asyncio services: a producer whose acknowledgement is one future per request, and client settings.

librdkafka does the batching, retrying and partitioning in its own threads. Python's part per message is one
`produce` call and one callback that counts down; a request waits for one future, not for one per message.

Acknowledgements are collected on the event loop's own thread, every millisecond while any is outstanding. A thread that
polls would have to win the interpreter lock from a busy loop for every single callback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as _Producer

from lily_common.errors import UnavailableError
from lily_common.logs import get_logger

log = get_logger(__name__)

#: How long a message may take to be acknowledged before the request is answered 503, in milliseconds.
DELIVERY_TIMEOUT_MS = 10_000
_POLL_SECONDS = 0.001


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


class Outgoing(Protocol):
    """What `Producer.send` takes: anything with a topic, a key, a value and headers as (name, bytes) pairs."""

    @property
    def topic(self) -> str: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


@dataclass(slots=True)
class Record:
    """One message to produce. `headers` as (name, bytes) pairs."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = field(default_factory=tuple)


class _Batch:
    """Counts down the acknowledgements of one `send`; resolves its future with the last."""

    __slots__ = ("error", "future", "pending")

    def __init__(self, future: asyncio.Future[None], pending: int) -> None:
        self.future = future
        self.pending = pending
        self.error: str | None = None

    def delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.error = error.str()
        self.pending -= 1
        if self.pending == 0 and not self.future.done():  # done: the request was cancelled
            if self.error is None:
                self.future.set_result(None)
            else:
                self.future.set_exception(UnavailableError(f"Kafka did not acknowledge: {self.error}"))

    def expire(self) -> None:
        """Nobody waits any longer; what is acknowledged later is acknowledged to nobody."""
        if not self.future.done():
            error = UnavailableError("Kafka did not acknowledge in time, try again", retry_after=2)
            self.future.set_exception(error)


class Producer:
    """An asyncio producer over confluent-kafka, for one event loop. `close()` it at the end."""

    def __init__(self, bootstrap: str, **overrides: Any) -> None:
        self._config = producer_config(bootstrap, **overrides)
        self._producer = _Producer(self._config)
        self._polling: asyncio.AbstractEventLoop | None = None

    async def send(self, records: Sequence[Outgoing], *, seconds: float | None = None) -> None:
        """Return when every record is acknowledged by all in-sync replicas.

        Raises UnavailableError (503) when any is not (within `seconds`, where given), or when the local queue is full;
        some of the records may then be in Kafka all the same, so the caller must not claim that nothing was written.
        """
        if not records:
            return
        loop = asyncio.get_running_loop()
        batch = _Batch(loop.create_future(), len(records))
        produce, delivered = self._producer.produce, batch.delivered
        queued = 0
        try:
            for record in records:
                headers = record.headers
                if headers:
                    produce(
                        record.topic, record.value, record.key, on_delivery=delivered, headers=list(headers)
                    )
                else:
                    produce(record.topic, record.value, record.key, on_delivery=delivered)
                queued += 1
        except (BufferError, KafkaException) as full:
            log.warning("produce refused", error=str(full), queued=queued, of=len(records))
            self._renew_if_broken(full)
            raise UnavailableError("the ingest queue is full, try again", code="overloaded") from full
        finally:
            if self._polling is not loop:
                self._polling = loop
                loop.call_later(_POLL_SECONDS, self._poll, loop)
        if seconds is None:
            await batch.future
            return
        late = loop.call_later(seconds, batch.expire)
        try:
            await batch.future
        finally:
            late.cancel()

    def _renew_if_broken(self, error: Exception) -> None:
        """An idempotent producer that lost its place (a fatal error) takes nothing any more: go on with a fresh one."""
        cause = error.args[0] if error.args else None
        if isinstance(cause, KafkaError) and cause.fatal():
            log.error("the producer is broken and renewed", error=cause.str())
            self._producer = _Producer(self._config)

    def _poll(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve what was acknowledged, and come back as long as more is outstanding."""
        self._producer.poll(0)
        if self._polling is not loop:
            return
        if len(self._producer):
            loop.call_later(_POLL_SECONDS, self._poll, loop)
        else:
            self._polling = None

    @property
    def queued(self) -> int:
        """Messages not yet acknowledged."""
        return len(self._producer)

    def partitions(self, topic: str, timeout: float = 2.0) -> int:
        """Number of partitions, asked from the broker. Raises KafkaException when it does not answer."""
        return len(self._producer.list_topics(topic, timeout=timeout).topics[topic].partitions)

    def close(self, timeout: float = 10.0) -> int:
        """Flush and stop; returns how many messages were left unacknowledged."""
        return int(self._producer.flush(timeout))


def header(headers: Iterable[tuple[str, bytes | str | None]] | None, name: str) -> bytes | None:
    """The first header of that name as bytes, or None."""
    for key, value in headers or ():
        if key == name and value is not None:
            return value if isinstance(value, bytes) else value.encode()
    return None
