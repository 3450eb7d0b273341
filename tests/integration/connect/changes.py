"""Messages of change data as Debezium sends them: read from the topic, and told apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from tests.support.poll import until
from tests.support.stack import Stack


@dataclass(frozen=True)
class Change:
    """One message. A tombstone has no value; a truncation no key."""

    key: dict[str, Any] | None
    value: dict[str, Any] | None
    partition: int
    offset: int

    @property
    def op(self) -> str:
        return str(self.value["payload"]["op"]) if self.value is not None else "tombstone"

    @property
    def after(self) -> dict[str, Any]:
        assert self.value is not None
        found: dict[str, Any] = self.value["payload"]["after"]
        return found

    @property
    def id(self) -> Any:
        return self.key["payload"]["id"] if self.key is not None else None

    def document(self) -> dict[str, Any]:
        return {"key": self.key, "value": self.value}


def changes(stack: Stack, topic: str) -> list[Change]:
    """All of the topic so far, in order within a partition; none while there is no such topic."""
    try:
        messages = list(stack.log.read(topic))
    except (KeyError, KafkaException):  # not there, or made a moment ago
        return []
    found = [
        Change(
            json.loads(message.key() or b"null"),
            json.loads(message.value() or b"null"),
            message.partition() or 0,
            message.offset() or 0,
        )
        for message in messages
    ]
    return sorted(found, key=lambda one: (one.partition, one.offset))


def wait_for(stack: Stack, topic: str, enough: Callable[[list[Change]], bool], what: str) -> list[Change]:
    """The topic's messages once they are enough."""

    def there() -> list[Change]:
        found = changes(stack, topic)
        assert enough(found), [(one.op, one.id) for one in found[-20:]]
        return found

    return until(there, what, pause=0.5)
