"""When Kafka has forgotten: where its partitions ended when the erasure was applied, and when that is past retention.

A segment goes when its newest message is past retention, and lasts until it is rolled: both times count.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from lily_api.erasures.models import Erasure
from lily_common.config import Settings

_TIMEOUT = 15.0
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
#: How often a broker looks for what is past retention, where it does not say.
_CHECK_MS = 300_000
_INTERNAL = ("lily.connect.", "lily.cdc-heartbeat.")


async def marks(settings: Settings, tenant: str) -> tuple[dict[str, dict[str, int]], datetime | None]:
    """(topic -> partition -> its end, when all of that is gone; None when a topic keeps for ever)."""
    return await asyncio.to_thread(_marks, settings.kafka_bootstrap, tenant)


async def passed(settings: Settings, row: Erasure) -> bool:
    """Whether Kafka has removed everything up to the marks."""
    if row.gone_from_kafka_by is None or datetime.now(UTC) < row.gone_from_kafka_by:
        return False
    return await asyncio.to_thread(_passed, settings.kafka_bootstrap, row.marks)


def concerned(topic: str, tenant: str) -> bool:
    """Topics that may hold something of the tenant."""
    if topic.startswith(_INTERNAL):
        return False
    return topic.startswith("lily.") or topic.startswith(f"cdc.{tenant}.")


def _marks(bootstrap: str, tenant: str) -> tuple[dict[str, dict[str, int]], datetime | None]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.list_topics(timeout=_TIMEOUT)
    topics = [name for name in described.topics if concerned(name, tenant)]
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    configs = {
        resource.name: future.result(_TIMEOUT)
        for resource, future in admin.describe_configs(resources).items()
    }
    check = _check_interval(admin, next(iter(described.brokers)))
    kept = [name for name in topics if "delete" in configs[name]["cleanup.policy"].value]
    waits = [_wait(configs[name], check) for name in kept]
    ends = _offsets(
        admin,
        [TopicPartition(name, number) for name in kept for number in described.topics[name].partitions],
        _LATEST,
    )
    gone = None if any(wait is None for wait in waits) else max(filter(None, waits), default=timedelta())
    return ends, None if gone is None else datetime.now(UTC) + gone


def _wait(config: Any, check: timedelta) -> timedelta | None:
    """How long after now a topic's messages of now may be in a file."""
    values = {
        name: int(config[name].value) for name in ("retention.ms", "segment.ms", "file.delete.delay.ms")
    }
    if values["retention.ms"] < 0:
        return None
    return timedelta(milliseconds=sum(values.values())) + check


def _check_interval(admin: AdminClient, broker: int) -> timedelta:
    resource = ConfigResource(ResourceType.BROKER, str(broker))
    found = admin.describe_configs([resource])[resource].result(_TIMEOUT)
    entry = found.get("log.retention.check.interval.ms")
    return timedelta(milliseconds=int(entry.value) if entry is not None else _CHECK_MS)


def _offsets(
    admin: AdminClient, partitions: list[TopicPartition], at: OffsetSpec
) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for place, future in admin.list_offsets(dict.fromkeys(partitions, at)).items() if partitions else ():
        found.setdefault(place.topic, {})[str(place.partition)] = future.result(_TIMEOUT).offset
    return found


def _passed(bootstrap: str, marks: dict[str, dict[str, int]]) -> bool:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    held = admin.list_topics(timeout=_TIMEOUT).topics
    places = [
        TopicPartition(topic, int(number))
        for topic, partitions in marks.items()
        if topic in held
        for number in partitions
    ]
    try:
        firsts = _offsets(admin, places, _EARLIEST)
    except KafkaException:
        return False
    return all(
        firsts[place.topic][str(place.partition)] >= marks[place.topic][str(place.partition)]
        for place in places
    )
