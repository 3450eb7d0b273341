"""The tenant's public Kafka topic `lily.<tenant>.events`: one managed subscription per tenant, made with the tenant.

Key = `tenant|qualified_name`, as on every other topic of Lily: all that concerns one asset is in one partition, hence in
one order, and a consumer's state per asset lives in one process. The value is the CloudEvent (structured mode).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Literal

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from lily_common.errors import LilyError
from lily_common.events import tenant_events_topic
from lily_common.kafka import Producer, Record
from lily_common.logs import get_logger
from lily_common.names import message_key
from lily_connectors.contract import OutboundNotice, Outcome, Ports, Sink, SinkConfig

log = get_logger(__name__)

PARTITIONS = 4
RETENTION_MS = 7 * 24 * 3600 * 1000
_ALREADY_EXISTS = "TOPIC_ALREADY_EXISTS"


class KafkaConfig(SinkConfig):
    """Nothing to set: the topic follows from the tenant."""

    kind: Literal["kafka"] = "kafka"


class KafkaSink(Sink[KafkaConfig, Record]):
    kind: ClassVar[str] = "kafka"
    config_model = KafkaConfig
    concurrency = 512

    def render(self, notice: OutboundNotice, now: datetime) -> Record:  # noqa: ARG002
        return Record(
            tenant_events_topic(notice.tenant),
            message_key(notice.tenant, notice.subject).encode(),
            notice.body,
            (
                ("content-type", b"application/cloudevents+json; charset=utf-8"),
                ("lily-delivery-id", notice.delivery_id.encode()),
            ),
        )

    async def send(self, rendered: Record, ports: Ports, within: float) -> Outcome:  # noqa: ARG002
        return await ports.kafka.append(rendered)


class TopicWriter:
    """Implements `KafkaPort` on the worker's idempotent producer; creates each topic at its first use.

    The producer bounds the wait for an acknowledgement itself (`delivery.timeout.ms`): giving up earlier here would leave
    the record on its way, and the retry behind it.
    """

    def __init__(self, producer: Producer, bootstrap: str, *, replication: int = -1) -> None:
        self._producer = producer
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._replication = replication
        self._known: set[str] = set()
        self._creating: dict[str, asyncio.Task[None]] = {}

    async def append(self, record: Record) -> Outcome:
        return await self.append_all([record])

    async def append_all(self, records: Sequence[Record]) -> Outcome:
        """Append in this order; not ok when any of them is not acknowledged."""
        try:
            for topic in {record.topic for record in records} - self._known:
                await self._ensure(topic)
            await self._producer.send(records)
        except (LilyError, KafkaException) as failed:
            return Outcome(False, error=f"Kafka: {failed}")
        return Outcome(True)

    async def _ensure(self, topic: str) -> None:
        task = self._creating.get(topic)
        if task is None:
            task = self._creating[topic] = asyncio.create_task(self._create(topic))
            task.add_done_callback(lambda _: self._creating.pop(topic, None))
        await asyncio.shield(task)

    async def _create(self, topic: str) -> None:
        new = NewTopic(
            topic,
            num_partitions=PARTITIONS,
            replication_factor=self._replication,
            config={"retention.ms": str(RETENTION_MS)},
        )
        future = self._admin.create_topics([new], operation_timeout=10)[topic]
        try:
            await asyncio.wrap_future(future)
            log.info("topic created", topic=topic)
        except KafkaException as refused:
            if refused.args[0].name() != _ALREADY_EXISTS:
                raise
        self._known.add(topic)
