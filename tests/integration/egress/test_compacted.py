"""A compacted topic read as a map, on a real Kafka."""

from __future__ import annotations

import secrets

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.stack import Stack

from lily_common.compacted import Compacted
from lily_common.errors import UnavailableError
from lily_common.kafka import producer_config

pytestmark = pytest.mark.stack


def parsed(value: bytes) -> str:
    if value == b"broken":
        raise ValueError("no value")
    return value.decode()


def test_every_look_has_all_that_was_written_before_it(servers: Stack) -> None:
    bootstrap = servers.environment["KAFKA_BOOTSTRAP"]
    topic = f"compacted-{secrets.token_hex(4)}"
    feed = Compacted(bootstrap, topic, "test", parsed)
    assert feed.current() == {}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, 3, config={"cleanup.policy": "compact"})]).values():
        made.result(20)
    producer = Producer(producer_config(bootstrap))
    wanted: dict[str, str] = {}
    for number in range(40):
        key, value = f"k{number % 7}", f"v{number}"
        wanted[key] = value
        producer.produce(topic, value, key)
        if number % 5 == 0:
            wanted.pop("k3", None)
            producer.produce(topic, None, "k3")
        if number % 11 == 0:
            producer.produce(topic, "broken", key)
        assert producer.flush(20) == 0
        assert feed.current() == wanted
        # Between two looks nothing is fetched: a fetch may wait but briefly, and would be made hundreds of times a second.
        assert feed._consumer.assignment() == []
    assert Compacted(bootstrap, topic, "another", parsed).current() == wanted
    feed.close()


def test_no_answer_is_no_empty_map() -> None:
    feed = Compacted("127.0.0.1:1", "compacted", "test", parsed)
    with pytest.raises(UnavailableError, match="cannot be read"):
        feed.current()
