"""Derived events on their way to `lily.changes.priority`, where they are events like any other."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Protocol

from confluent_kafka import KafkaException, Producer

from lily_common.envelope import accept
from lily_common.kafka import producer_config
from lily_common.metrics import PROPAGATED

_FLUSH_SECONDS = 60.0
_POLL_EVERY = 1_000


class Told(Protocol):
    """Something to tell: an event of a tenant, by which an asset has something more or less."""

    @property
    def tenant(self) -> str: ...
    @property
    def event(self) -> dict[str, Any]: ...
    @property
    def attached(self) -> bool: ...


class Publisher:
    """Sends derived events and waits until Kafka has them. `caller` is who brought them, as an asset's audit says."""

    def __init__(self, bootstrap: str, caller: str) -> None:
        self._caller = caller
        self._producer = Producer(producer_config(bootstrap))

    def send(self, told: Iterable[Told]) -> int:
        """How many were sent. Raises KafkaException unless all in-sync replicas have every one of them."""
        failures: list[str] = []
        counts = {True: 0, False: 0}
        for each in told:
            event = accept(each.tenant, each.event, datetime.now(UTC), caller=self._caller)
            self._produce(event.topic, event.key, event.value, failures)
            counts[each.attached] += 1
            if sum(counts.values()) % _POLL_EVERY == 0:
                self._producer.poll(0)
        if self._producer.flush(_FLUSH_SECONDS) or failures:
            raise KafkaException(f"derived events not acknowledged: {failures[:1]}")
        PROPAGATED.labels(self._caller, "attached").inc(counts[True])
        PROPAGATED.labels(self._caller, "detached").inc(counts[False])
        return sum(counts.values())

    def _produce(self, topic: str, key: bytes, value: bytes, failures: list[str]) -> None:
        while True:
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    on_delivery=lambda error, _: failures.append(error.str()) if error is not None else None,
                )
                return
            except BufferError:  # a large closure: wait until some of it is gone
                self._producer.poll(0.1)
