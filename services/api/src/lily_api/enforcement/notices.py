"""Reading `lily.notices` for the view: blocking, in a thread, by a consumer that commits nothing."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Message, TopicPartition

from lily_api.enforcement.pulse import Pulse
from lily_api.enforcement.view import TagView
from lily_common.events import NOTICES_TOPIC
from lily_common.heartbeats import is_heartbeat
from lily_common.kafka import consumer_config
from lily_connectors.egress.digests import folded_key
from lily_connectors.egress.notices import UnreadableNoticeError, read
from lily_connectors.egress.worker import GROUP

_TIMEOUT = 5.0
_AT_ONCE = 500
_POLL_SECONDS = 0.1


class NoticeReader:
    """Every method may raise KafkaException when the broker does not answer."""

    def __init__(self, bootstrap: str) -> None:
        # Of egress's group by name alone: partitions are assigned by hand, and nothing is committed. The broker answers
        # as soon as there is a notice; a long wait costs no time, and a short one the broker a question each time.
        self._consumer = Consumer(consumer_config(bootstrap, GROUP, **{"fetch.wait.max.ms": 500}))

    def begin(self) -> int:
        """Stand where egress has committed; returns the number of partitions."""
        found = self._consumer.list_topics(NOTICES_TOPIC, timeout=_TIMEOUT).topics[NOTICES_TOPIC]
        if found.error is not None:
            raise KafkaException(found.error)
        places = self._consumer.committed(
            [TopicPartition(NOTICES_TOPIC, number) for number in found.partitions], timeout=_TIMEOUT
        )
        for place in places:
            if place.error is not None:
                raise KafkaException(place.error)
            if place.offset == OFFSET_INVALID:
                place.offset = 0
        self._consumer.assign(places)
        return len(places)

    def follow(self, view: TagView, pulse: Pulse, stop: threading.Event) -> None:
        """Take notices into the view until `stop` is set."""
        while not stop.is_set():
            for message in self._consumer.consume(_AT_ONCE, _POLL_SECONDS):
                if (error := message.error()) is not None:
                    if error.fatal() or not error.retriable():
                        raise KafkaException(error)
                    continue
                _take(message, view, pulse)

    def close(self) -> None:
        self._consumer.close()


def _take(message: Message, view: TagView, pulse: Pulse) -> None:
    key, value = message.key(), message.value()
    if isinstance(key, bytes) and is_heartbeat(key):
        pulse.note(key, value)
        return
    try:
        notice = read(value, None, datetime.now(UTC))
    except UnreadableNoticeError:
        return  # egress puts it among the dead letters
    folded = folded_key(notice.tenant, notice.subject)
    view.take_notice(notice.asset, folded, notice.type, notice.register, notice.version)
