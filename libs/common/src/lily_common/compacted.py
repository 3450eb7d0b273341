"""A compacted topic as a map, read by the driver to its end whenever asked: configuration that the API publishes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from lily_common.errors import UnavailableError
from lily_common.kafka import consumer_config
from lily_common.logs import get_logger

log = get_logger(__name__)
_TIMEOUT = 10.0
Value = TypeVar("Value")


class Compacted(Generic[Value]):
    """The latest value of each key; what is read once is kept. Thread-safe.

    `parse` makes a value of a message's bytes and raises ValueError for what is none: the last good one then holds.
    """

    def __init__(self, bootstrap: str, topic: str, group: str, parse: Callable[[bytes], Value]) -> None:
        self._topic = topic
        self._parse = parse
        self._consumer = Consumer(consumer_config(bootstrap, group, **{"fetch.wait.max.ms": 5}))
        self._values: dict[str, Value] = {}
        self._positions: dict[int, int] = {}
        self._lock = threading.Lock()

    def current(self) -> dict[str, Value]:
        """Key -> value, as of now; empty while there is no such topic.

        Raises UnavailableError when Kafka does not answer: to go on under a configuration that is not known could
        publish what must not be.
        """
        with self._lock:
            try:
                self._read_to(self._ends())
            except KafkaException as failed:
                raise UnavailableError(f"{self._topic} cannot be read: {failed}") from failed
            return dict(self._values)

    def close(self) -> None:
        self._consumer.close()

    def _ends(self) -> dict[int, int]:
        if not self._positions:
            described = self._consumer.list_topics(self._topic, timeout=_TIMEOUT).topics[self._topic]
            if described.error is not None:
                if described.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    return {}
                raise KafkaException(described.error)
            self._positions = dict.fromkeys(described.partitions, 0)
        ends = {}
        for number in self._positions:
            _low, high = self._consumer.get_watermark_offsets(TopicPartition(self._topic, number), _TIMEOUT)
            ends[number] = high
        return ends

    def _read_to(self, ends: dict[int, int]) -> None:
        """Read up to these offsets, and fetch nothing afterwards.

        A fetch that waits for news holds up whatever else is asked on its connection, the ends at the next look
        included, so that it may wait but briefly: between looks that would be hundreds a second.
        """
        if all(self._positions[number] >= end for number, end in ends.items()):
            return
        deadline = time.monotonic() + _TIMEOUT
        self._consumer.assign([TopicPartition(self._topic, *place) for place in self._positions.items()])
        try:
            while any(self._reached(number) < end for number, end in ends.items()):
                message = self._consumer.poll(0.2)
                if message is not None:
                    self._take(message)
                elif time.monotonic() > deadline:
                    raise UnavailableError(f"{self._topic} could not be read to its end")
        finally:
            self._positions = {number: self._reached(number) for number in self._positions}
            self._consumer.unassign()

    def _reached(self, partition: int) -> int:
        """The next offset to read: compaction and control records leave gaps that only the consumer knows."""
        position = self._consumer.position([TopicPartition(self._topic, partition)])[0].offset
        return max(self._positions[partition], position)

    def _take(self, message: Message) -> None:
        if (error := message.error()) is not None:
            if error.fatal():
                raise KafkaException(error)
            return
        partition, offset = message.partition(), message.offset()
        if partition is None or offset is None:
            return
        self._positions[partition] = offset + 1
        key, value = message.key(), message.value()
        if key is None:
            return
        name = key.decode("utf-8", "replace") if isinstance(key, bytes) else key
        if value is None:
            self._values.pop(name, None)
            return
        try:
            self._values[name] = self._parse(value if isinstance(value, bytes) else value.encode())
        except ValueError as broken:
            log.error(
                "message ignored, the last good one holds", topic=self._topic, key=name, reason=str(broken)
            )
