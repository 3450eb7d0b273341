"""Ingest needs the API, Kafka, PostgreSQL and MongoDB; what reads the topics is not needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Message
from tests.support.stack import Stack
from tests.support.tenant import Tenant

TOPICS = ("lily.changes.priority", "lily.changes.bulk", "lily.raw")


class Watch:
    """What has come onto the topics for one tenant since this was made."""

    def __init__(self, stack: Stack, tenant: Tenant) -> None:
        self._log, self._tenant = stack.log, tenant.id
        self._starts = {topic: stack.log.ends(topic) for topic in TOPICS}

    def _messages(self, topic: str) -> Iterator[Message]:
        return self._log.read(topic, self._starts[topic])

    def changes(self) -> list[dict[str, Any]]:
        """Envelopes of both lanes, each with its topic and key."""
        found = []
        for topic in TOPICS[:2]:
            for message in self._messages(topic):
                envelope = json.loads(message.value() or b"")
                if envelope["tenantid"] == self._tenant:
                    found.append(envelope | {"_topic": topic, "_key": (message.key() or b"").decode()})
        return found

    def raw(self) -> list[dict[str, Any]]:
        """The archive's records: body, key and headers."""
        found = []
        for message in self._messages(TOPICS[2]):
            headers = {name: value.decode() for name, value in message.headers() or ()}
            if headers["tenant"] == self._tenant:
                record = {"body": message.value() or b"", "key": (message.key() or b"").decode()}
                found.append(record | headers | {"headers": json.loads(headers["headers"])})
        return found


@pytest.fixture
def watch(stack: Stack, tenant: Tenant) -> Watch:
    return Watch(stack, tenant)
