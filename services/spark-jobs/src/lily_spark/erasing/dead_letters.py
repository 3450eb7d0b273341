"""Dead letters without what is erased: the others are written again behind them, then all up to there is cut off.

A crash in between leaves some twice: dead letters are at least once anyway.
"""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lily_common.erasing.stoplist import Matcher
from lily_common.events import DLQ_CDC_TOPIC, DLQ_CHANGES_TOPIC, DLQ_DELIVERIES_TOPIC
from lily_common.kafka import consumer_config, producer_config
from lily_common.logs import get_logger

log = get_logger(__name__)
TOPICS = (DLQ_CHANGES_TOPIC, DLQ_CDC_TOPIC, DLQ_DELIVERIES_TOPIC)
_TIMEOUT = 15.0


class DeadLetterTopics:
    """Used by one thread."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def erase(self, topic: str, matcher: Matcher) -> int:
        """Messages removed from `topic`."""
        settings = consumer_config(self._bootstrap, "lily-lake-erasing", **{"enable.partition.eof": True})
        consumer = Consumer(settings)
        try:
            described = consumer.list_topics(topic, timeout=_TIMEOUT).topics[topic]
            if described.error is not None:
                return 0
            places = [TopicPartition(topic, number) for number in described.partitions]
            return sum(self._erase(consumer, place, matcher) for place in places)
        finally:
            consumer.close()

    def _erase(self, consumer: Consumer, place: TopicPartition, matcher: Matcher) -> int:
        messages, end = _read(consumer, place)
        kept = [message for message in messages if not _concerned(message, matcher)]
        removed = len(messages) - len(kept)
        if removed:
            self._write(kept)
            admin = AdminClient({"bootstrap.servers": self._bootstrap})
            cut = TopicPartition(place.topic, place.partition, end)
            for future in admin.delete_records([cut]).values():
                future.result(_TIMEOUT)
            log.info("dead letters erased", topic=place.topic, removed=removed, kept=len(kept))
        return removed

    def _write(self, messages: list[Message]) -> None:
        producer = Producer(producer_config(self._bootstrap))
        failures: list[KafkaError] = []
        for message in messages:
            producer.produce(
                message.topic() or "",
                message.value(),
                message.key(),
                partition=message.partition() or 0,
                headers=message.headers() or [],
                on_delivery=lambda error, _message: failures.append(error) if error is not None else None,
            )
        if producer.flush(_TIMEOUT) or failures:
            raise KafkaException("dead letters were not acknowledged")


def _read(consumer: Consumer, place: TopicPartition) -> tuple[list[Message], int]:
    low, end = consumer.get_watermark_offsets(place, _TIMEOUT)
    if low >= end:
        return [], end
    consumer.assign([TopicPartition(place.topic, place.partition, low)])
    messages: list[Message] = []
    while True:
        message = consumer.poll(_TIMEOUT)
        if message is None:
            raise KafkaException(f"{place.topic} could not be read to its end")
        if (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                return messages, end
            raise KafkaException(error)
        if (message.offset() or 0) >= end:
            return messages, end
        messages.append(message)
        if (message.offset() or 0) == end - 1:
            return messages, end


def _concerned(message: Message, matcher: Matcher) -> bool:
    """A letter of this tenant, or of nobody's, that holds what is erased."""
    key, value = _bytes(message.key()), _bytes(message.value())
    owner = key.split(b"|")[0].decode("utf-8", "replace")
    if owner != matcher.tenant and b"|" in key:
        return False
    return matcher.body(value) if not matcher.everything else owner == matcher.tenant


def _bytes(part: bytes | str | None) -> bytes:
    return part.encode() if isinstance(part, str) else part or b""
