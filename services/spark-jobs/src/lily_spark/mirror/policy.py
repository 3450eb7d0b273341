"""Tenants' field policies, kept fresh from the compacted topic `lily.tenants` by the driver."""

from __future__ import annotations

import threading
import time
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from lily_common.errors import UnavailableError
from lily_common.events import TENANTS_TOPIC
from lily_common.kafka import consumer_config
from lily_common.logs import get_logger

log = get_logger(__name__)
_TIMEOUT = 10.0


def sensitive_fields(value: bytes) -> frozenset[str]:
    """The field names in one policy message. Raises ValueError when it is not one."""
    policy: Any = orjson.loads(value)
    names = policy.get("sensitive_fields") or [] if isinstance(policy, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("not a policy: sensitive_fields must be a list of field names")
    return frozenset(names)


class PolicyReader:
    """Reads `lily.tenants` to its end whenever asked; what is read once is kept.

    Without Kafka there is no answer but an error: mirroring under an unknown policy could publish what a tenant
    calls sensitive.
    """

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            consumer_config(bootstrap, "lily-mirror-policies", **{"fetch.wait.max.ms": 5})
        )
        self._policies: dict[str, frozenset[str]] = {}
        self._positions: dict[int, int] = {}
        self._lock = threading.Lock()

    def current(self) -> dict[str, frozenset[str]]:
        """Tenant -> sensitive field names, as of now. Raises UnavailableError when Kafka does not answer."""
        with self._lock:
            try:
                ends = self._ends()
                self._read_to(ends)
            except KafkaException as failed:
                raise UnavailableError(f"policies cannot be read: {failed}") from failed
            return dict(self._policies)

    def close(self) -> None:
        self._consumer.close()

    def _ends(self) -> dict[int, int]:
        if not self._positions:
            described = self._consumer.list_topics(TENANTS_TOPIC, timeout=_TIMEOUT).topics[TENANTS_TOPIC]
            if described.error is not None:
                if described.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    return {}
                raise KafkaException(described.error)
            self._positions = dict.fromkeys(described.partitions, 0)
            self._consumer.assign([TopicPartition(TENANTS_TOPIC, number, 0) for number in self._positions])
        ends = {}
        for number in self._positions:
            _low, high = self._consumer.get_watermark_offsets(TopicPartition(TENANTS_TOPIC, number), _TIMEOUT)
            ends[number] = high
        return ends

    def _read_to(self, ends: dict[int, int]) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while any(self._reached(number) < end for number, end in ends.items()):
            message = self._consumer.poll(0.2)
            if message is not None:
                self._take(message)
            elif time.monotonic() > deadline:
                raise UnavailableError(f"{TENANTS_TOPIC} could not be read to its end")

    def _reached(self, partition: int) -> int:
        """The next offset to read: compaction and control records leave gaps that only the consumer knows."""
        position = self._consumer.position([TopicPartition(TENANTS_TOPIC, partition)])[0].offset
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
        tenant = key.decode("utf-8", "replace") if isinstance(key, bytes) else key
        if value is None:
            self._policies.pop(tenant, None)
            return
        try:
            self._policies[tenant] = sensitive_fields(value if isinstance(value, bytes) else value.encode())
        except ValueError as broken:
            log.error("policy ignored, the last good one holds", tenant=tenant, reason=str(broken))
