"""The one guarded write to `assets`: read, merge, replace where nobody wrote in between, else read again.

Both lanes, a rebuild and upkeep may write one asset at a time. Each document carries `rev`; a replacement names the
`rev` that it read. Since the merge keeps the greatest version of each register, redoing a lost race converges.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import bson
from pymongo import InsertOne, ReplaceOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from lily_spark.mirror import document
from lily_spark.mirror.changes import AssetChange, MirrorEvent
from lily_spark.mirror.settings import MirrorConfig
from lily_spark.mirror.store import Document

_DUPLICATE = 11000
_MAX_ROUNDS = 50
#: Documents are measured exactly once their estimate passes this; Mongo's limit is 16 MiB.
_MEASURE_FROM = 6_000_000
MAX_DOCUMENT = 15_000_000

#: (stored document or None, change) -> the new document, or None when nothing is to be written.
Merge = Callable[[Mapping[str, Any] | None, AssetChange], dict[str, Any] | None]


@dataclass(slots=True)
class Outcome:
    """`written` documents, `stale` changes that said nothing new, events of assets that would grow too large."""

    written: int = 0
    stale: int = 0
    too_large: list[MirrorEvent] = field(default_factory=list)


def apply(assets: Collection[Document], changes: Mapping[str, AssetChange], config: MirrorConfig) -> Outcome:
    """Merge these changes (by document id) into the mirror."""
    return write(assets, changes, lambda stored, change: document.merged(stored, change, config))


def write(assets: Collection[Document], changes: Mapping[str, AssetChange], merge: Merge) -> Outcome:
    """Write `merge` of each stored document and its change. Raises PyMongoError when Mongo cannot be written."""
    outcome = Outcome()
    pending = dict(changes)
    for attempt in range(_MAX_ROUNDS):
        stored = {found["_id"]: found for found in assets.find({"_id": {"$in": list(pending)}})}
        operations: dict[str, InsertOne[Document] | ReplaceOne[Document]] = {}
        for name, change in pending.items():
            held = stored.get(name)
            new = merge(held, change)
            if new is None:
                outcome.stale += attempt == 0
            elif not _fits(new):
                outcome.too_large.extend(change.events)
            elif held is None:
                operations[name] = InsertOne(new)
            else:
                operations[name] = ReplaceOne({"_id": name, "rev": held["rev"]}, new)
        if not operations:
            return outcome
        written = _send(assets, list(operations.values()))
        outcome.written += written
        if written == len(operations):
            return outcome
        pending = {name: pending[name] for name in operations}
        time.sleep(random.uniform(0, 0.01) * attempt)  # noqa: S311  (parts two writers that keep meeting)
    raise TimeoutError(f"{len(pending)} assets were rewritten by others {_MAX_ROUNDS} times in a row")


def _send(assets: Collection[Document], operations: list[InsertOne[Document] | ReplaceOne[Document]]) -> int:
    """How many of these took effect; the others met a document that someone else wrote first."""
    try:
        result = assets.bulk_write(operations, ordered=False)
    except BulkWriteError as failed:
        details = failed.details
        if details.get("writeConcernErrors") or any(e["code"] != _DUPLICATE for e in details["writeErrors"]):
            raise
        return int(details["nInserted"] + details["nMatched"])
    return result.inserted_count + result.matched_count


def _fits(new: dict[str, Any]) -> bool:
    """Whether Mongo can hold the document; its `size` is an estimate until it is worth measuring."""
    if new["size"] >= _MEASURE_FROM:
        new["size"] = len(bson.encode(new))
    return bool(new["size"] <= MAX_DOCUMENT)
