"""Blocking reads of one tenant's topic with a consumer that belongs to no group. Called from threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from lily_api.stream.positions import Positions
from lily_common.kafka import consumer_config

_TIMEOUT = 5.0
_AT_ONCE = 500


@dataclass(slots=True)
class Entry:
    """One event of the topic, as egress wrote it; `event` is read from `value` when first asked for."""

    partition: int
    offset: int
    value: bytes
    _event: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def event(self) -> dict[str, Any]:
        if self._event is None:
            parsed = orjson.loads(self.value)
            self._event = parsed if isinstance(parsed, dict) else {}
        return self._event


class TopicReader:
    """Reads `topic` from given positions. Every method may raise KafkaException when the broker does not answer."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        # The group is only a name to librdkafka here: partitions are assigned by hand, nothing is committed.
        self._consumer = Consumer(
            consumer_config(bootstrap, "lily-stream", **{"queued.max.messages.kbytes": 4096})
        )

    def partitions(self) -> list[int]:
        """The topic's partitions; none when it does not exist (yet)."""
        found = self._consumer.list_topics(self._topic, timeout=_TIMEOUT).topics[self._topic]
        if found.error is not None:
            if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return []
            raise KafkaException(found.error)
        return sorted(found.partitions)

    def bounds(self) -> dict[int, tuple[int, int]]:
        """Partition -> (first offset held, next offset to be written)."""
        return {
            number: self._consumer.get_watermark_offsets(TopicPartition(self._topic, number), _TIMEOUT)
            for number in self.partitions()
        }

    def assign(self, positions: Positions) -> None:
        self._consumer.assign([TopicPartition(self._topic, number, at) for number, at in positions.items()])

    def read(self, seconds: float) -> list[Entry]:
        """What has come, waiting at most `seconds` for the first. Raises KafkaException when the topic is gone."""
        first = self._consumer.poll(seconds)
        if first is None:
            return []
        entries = []
        for message in (first, *self._consumer.consume(_AT_ONCE, 0)):
            if (error := message.error()) is not None:
                if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART or error.fatal():
                    raise KafkaException(error)
                continue  # librdkafka goes on by itself
            partition, offset, value = message.partition(), message.offset(), message.value()
            if partition is not None and offset is not None and isinstance(value, bytes):
                entries.append(Entry(partition, offset, value))
        return entries

    def close(self) -> None:
        self._consumer.close()
