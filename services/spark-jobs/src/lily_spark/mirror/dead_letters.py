"""Messages that the mirror could not take go to `lily.dlq.changes`, as they were, with the reason beside them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from confluent_kafka import Producer

from lily_common.errors import UnavailableError
from lily_common.events import DLQ_CHANGES_TOPIC
from lily_common.kafka import producer_config
from lily_spark.mirror.changes import Reject


@lru_cache(maxsize=2)
def _producer(bootstrap: str) -> Producer:
    return Producer(producer_config(bootstrap))


def send(bootstrap: str, rejects: Iterable[Reject]) -> int:
    """Return when Kafka has acknowledged all of them; raises UnavailableError when it has not.

    A batch that is repeated sends them again: dead letters are at least once.
    """
    producer = _producer(bootstrap)
    failures: list[str] = []
    sent = 0
    for reject in rejects:
        producer.produce(
            DLQ_CHANGES_TOPIC,
            reject.message.value.encode(),
            key=reject.message.key.encode() if reject.message.key is not None else None,
            headers=[("reason", reject.reason.encode()), ("position", reject.message.position.encode())],
            on_delivery=lambda error, _message: failures.append(error.str()) if error is not None else None,
        )
        sent += 1
    left = producer.flush(15)
    if left or failures:
        raise UnavailableError(f"dead letters were not acknowledged: {failures[:1] or 'timed out'}")
    return sent
