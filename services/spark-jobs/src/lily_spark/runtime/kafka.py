"""Waiting for Kafka, and asking it how many partitions a topic has."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lily_common.logs import get_logger

log = get_logger(__name__)


class StoppedError(Exception):
    """The process was told to stop while it waited."""


def wait_for_topics(bootstrap: str, topics: Sequence[str], stopping: Callable[[], bool]) -> dict[str, int]:
    """Partitions by topic, as soon as Kafka answers and has every one of `topics`.

    Waits as long as it takes, saying so every few seconds. Raises StoppedError when `stopping()` turns true.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2, "socket.timeout.ms": 2000})
    said = 0.0
    while not stopping():
        try:
            held = admin.list_topics(timeout=2).topics
            missing = [topic for topic in topics if topic not in held or not held[topic].partitions]
            if not missing:
                return {topic: len(held[topic].partitions) for topic in topics}
            problem = f"topics missing: {', '.join(missing)}"
        except KafkaException as unreachable:
            problem = str(unreachable)
        if time.monotonic() - said > 5:
            log.warning("waiting for Kafka", bootstrap=bootstrap, problem=problem)
            said = time.monotonic()
        time.sleep(0.2)
    raise StoppedError
