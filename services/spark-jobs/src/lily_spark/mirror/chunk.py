"""One chunk of a partition, in a worker: parse, arbitrate, gather, write. All that the mirror does to an event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pymongo.database import Database

from lily_common.documents import ASSETS, EDGES, IDENTITIES, INCIDENTS
from lily_common.logs import get_logger
from lily_spark.mirror import assets, identity, relations
from lily_spark.mirror.changes import Message, MirrorEvent, Reject, gather, parse
from lily_spark.mirror.settings import MirrorConfig
from lily_spark.mirror.store import Document

if TYPE_CHECKING:  # the workers get it with the config, where there is one
    from lily_common.erasing.stoplist import StopList

log = get_logger(__name__)

#: Bounds of a chunk: what a worker holds in memory at a time.
MAX_EVENTS = 4_000
MAX_BYTES = 16_000_000


@dataclass(slots=True)
class Counts:
    """What became of the messages of a batch. `written` and `stale` count documents, the others messages.

    `rejects` are for the dead-letter topic. What is `unreadable` is not: the lake's own reader of the same topics
    puts it there.
    """

    events: int = 0
    written: int = 0
    repeats: int = 0
    conflicts: int = 0
    stale: int = 0
    unreadable: int = 0
    rejects: list[Reject] = field(default_factory=list)

    def add(self, other: Counts) -> None:
        self.events += other.events
        self.written += other.written
        self.repeats += other.repeats
        self.conflicts += other.conflicts
        self.stale += other.stale
        self.unreadable += other.unreadable
        self.rejects.extend(other.rejects)


def chunks(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """The messages in order, in lists bounded by count and bytes."""
    chunk: list[Message] = []
    size = 0
    for message in messages:
        if chunk and (len(chunk) >= MAX_EVENTS or size + len(message.value) > MAX_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(message)
        size += len(message.value)
    if chunk:
        yield chunk


def mirror_chunk(mirror: Database[Document], messages: list[Message], config: MirrorConfig) -> Counts:
    """Bring these messages into the mirror. Idempotent; raises PyMongoError when Mongo cannot be written.

    The assets are written last: what a reader finds through an asset (edges, incidents) is then there already.
    """
    counts = Counts(events=len(messages))
    events: list[MirrorEvent] = []
    for message in messages:
        try:
            event = parse(message)
            if config.stop is None or not _stopped(event, config.stop):
                events.append(event)
        except ValueError as broken:
            counts.unreadable += 1
            log.warning("unreadable message", position=message.position, reason=str(broken)[:300])
    verdict = identity.arbitrate(mirror[IDENTITIES], events, datetime.now(UTC))
    counts.repeats, counts.conflicts = verdict.repeats, len(verdict.conflicts)
    changes = gather(verdict.kept, config.sensitive)
    counts.written += relations.upsert(mirror[EDGES], changes.edges.values())
    counts.written += relations.upsert(mirror[INCIDENTS], changes.incidents.values())
    if changes.assets:
        outcome = assets.apply(mirror[ASSETS], changes.assets, config)
        counts.written += outcome.written
        counts.stale = outcome.stale
        counts.rejects.extend(
            Reject("the asset's document would be too large", event.message) for event in outcome.too_large
        )
    return counts


def _stopped(event: MirrorEvent, stop: StopList) -> bool:
    """Whether the event holds what was erased."""
    told = {"id": event.id, "source": event.source, "subject": event.subject, "data": event.data}
    return stop.stops(event.tenant, told)
