"""Each event identity counts once: what came first under an identity wins, whatever lane or batch repeats it.

`identities` remembers, for `dedupe` days, where each identity was first read and what its body was. A message
read again from the same place is the replay of a batch that did not finish: it goes on, all that follows is
idempotent. From another place it is a repeat (same body) or a conflict (another body), and is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from lily_spark.mirror.changes import MirrorEvent
from lily_spark.mirror.store import Document

_DUPLICATE = 11000


@dataclass(slots=True)
class Verdict:
    """`kept` in the order given."""

    kept: list[MirrorEvent] = field(default_factory=list)
    repeats: int = 0
    conflicts: list[MirrorEvent] = field(default_factory=list)


def arbitrate(identities: Collection[Document], events: Sequence[MirrorEvent], now: datetime) -> Verdict:
    """Register these events' identities and part the first ones from repeats and conflicts."""
    verdict = Verdict()
    firsts: dict[bytes, MirrorEvent] = {}
    later: list[tuple[bytes, MirrorEvent]] = []
    for event in events:
        identity = event.identity
        if identity in firsts:
            later.append((identity, event))
        else:
            firsts[identity] = event
    held = _register(identities, firsts, now)
    for identity, event in [*firsts.items(), *later]:
        stored = held.get(identity)
        position, body = (
            (firsts[identity].position, firsts[identity].body)
            if stored is None
            else (stored["p"], stored["h"])
        )
        if event.position == position:
            verdict.kept.append(event)
        elif event.body == body:
            verdict.repeats += 1
        else:
            verdict.conflicts.append(event)
    return verdict


def _register(
    identities: Collection[Document], firsts: dict[bytes, MirrorEvent], now: datetime
) -> dict[bytes, Document]:
    """Insert these identities; returns what is stored of those that were there already."""
    if not firsts:
        return {}
    documents = [
        {"_id": identity, "p": event.position, "h": event.body, "at": now}
        for identity, event in firsts.items()
    ]
    try:
        identities.insert_many(documents, ordered=False)
    except BulkWriteError as failed:
        errors = failed.details.get("writeErrors", [])
        if failed.details.get("writeConcernErrors") or any(error["code"] != _DUPLICATE for error in errors):
            raise
        known = [error["op"]["_id"] for error in errors]
        return {document["_id"]: document for document in identities.find({"_id": {"$in": known}})}
    return {}
