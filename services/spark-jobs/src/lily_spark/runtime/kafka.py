"""Waiting for Kafka, and asking it how many partitions a topic has."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

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


def end_offsets(bootstrap: str, topics: Sequence[str], timeout: float = 30) -> dict[str, dict[str, int]]:
    """Offset of the next message to come, by topic and partition (as text, the form of Spark's own offsets)."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    held = admin.list_topics(timeout=timeout).topics
    asked = {
        TopicPartition(topic, partition): OffsetSpec.latest()  # type: ignore[no-untyped-call]
        for topic in topics
        for partition in held[topic].partitions
    }
    ends: dict[str, dict[str, int]] = {topic: {} for topic in topics}
    for place, answer in admin.list_offsets(asked, request_timeout=timeout).items():
        ends[place.topic][str(place.partition)] = answer.result(timeout).offset
    return ends
