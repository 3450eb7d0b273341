"""Messages of change data that Kafka dropped before they were read: looked for whenever the query starts.

The source skips them (one deleted topic must not stop all others), so that somebody has to say it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import orjson
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from lily_common.logs import get_logger

log = get_logger(__name__)
_TIMEOUT = 30.0


@dataclass(frozen=True)
class Gap:
    """The query had read `topic`/`partition` up to `read`; `reason` says what is missing now."""

    topic: str
    partition: int
    read: int
    reason: str


def gaps(bootstrap: str, checkpoint: Path) -> list[Gap]:
    """What is missing between the last batch of this checkpoint and what Kafka still holds.

    Topics that are gone altogether are no gap: whoever deleted them wanted that.
    """
    read = committed(checkpoint)
    if not read:
        return []
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    held = admin.list_topics(timeout=_TIMEOUT).topics
    places = {
        TopicPartition(topic, partition): offset
        for (topic, partition), offset in read.items()
        if topic in held and partition in held[topic].partitions
    }
    first = _offsets(admin, places, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
    last = _offsets(admin, places, OffsetSpec.latest())  # type: ignore[no-untyped-call]
    found = []
    for place, offset in places.items():
        reason = None
        if first[place.topic, place.partition] > offset:
            missing = first[place.topic, place.partition] - offset
            reason = f"{missing} messages were dropped by Kafka before they were read"
        elif last[place.topic, place.partition] < offset:
            reason = "the topic was deleted and made anew: its first messages may not be read"
        if reason is not None:
            log.error("gap in change data", topic=place.topic, partition=place.partition, reason=reason)
            found.append(Gap(place.topic, place.partition, offset, reason))
    return found


def committed(checkpoint: Path) -> dict[tuple[str, int], int]:
    """(topic, partition) -> offset of the next message, after the last batch that was committed; empty when new."""
    batches = [int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdigit()]
    path = checkpoint / "offsets" / str(max(batches, default=-1))
    if not path.exists():
        return {}
    offsets = orjson.loads(path.read_text().splitlines()[-1])
    return {
        (topic, int(partition)): int(offset)
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def _offsets(
    admin: AdminClient, places: dict[TopicPartition, int], spec: OffsetSpec
) -> dict[tuple[str, int], int]:
    if not places:
        return {}
    answers = admin.list_offsets(dict.fromkeys(places, spec), request_timeout=_TIMEOUT)
    return {
        (place.topic, place.partition): answer.result(_TIMEOUT).offset for place, answer in answers.items()
    }
