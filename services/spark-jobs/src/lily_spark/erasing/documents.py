"""Erasing from the mirror: documents about what is erased go, texts in the others are replaced, the oplog is outrun."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from bson import Binary, Timestamp
from pymongo.collection import Collection
from pymongo.database import Database

from lily_common.documents import ASSETS, EDGES, INCIDENTS, decode_registers
from lily_common.erasing.stoplist import Matcher
from lily_common.logs import get_logger
from lily_spark.mirror import document
from lily_spark.mirror.settings import MirrorConfig
from lily_spark.mirror.store import Document

log = get_logger(__name__)
_CHUNK = 500
_NOTE_BYTES = 8 << 20
_EDGE_KEY = ("upstream", "downstream", "via")
_INCIDENT_KEY = ("qualified_name", "source", "incident_id")


def erase(mirror: Database[Document], matcher: Matcher, config: MirrorConfig) -> Iterator[tuple[str, int]]:
    """(collection, documents removed or changed) of each piece of work. May be done again."""
    mine = {"tenant": matcher.tenant}
    for chunk in _chunks(mirror[ASSETS], mine):
        yield ASSETS, sum(_asset(mirror[ASSETS], held, matcher, config) for held in chunk)
    for name, key in ((EDGES, _EDGE_KEY), (INCIDENTS, _INCIDENT_KEY)):
        for chunk in _chunks(mirror[name], mine):
            yield name, sum(_single(mirror[name], held, matcher, key) for held in chunk)
    for name in mirror.list_collection_names(filter={"name": {"$regex": "^cdc\\."}}):
        if name.split(".")[1] == matcher.tenant:
            for chunk in _chunks(mirror[name], {}):
                held = [found["_id"] for found in chunk if matcher.everything or matcher.value(_plain(found))]
                yield name, mirror[name].delete_many({"_id": {"$in": held}}).deleted_count if held else 0


def _chunks(collection: Collection[Document], where: dict[str, Any]) -> Iterator[list[Document]]:
    chunk: list[Document] = []
    for found in collection.find(where, batch_size=_CHUNK):
        chunk.append(found)
        if len(chunk) >= _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _asset(assets: Collection[Document], held: Document, matcher: Matcher, config: MirrorConfig) -> int:
    name = held["qualified_name"]
    if matcher.text(name):
        return assets.delete_one({"_id": held["_id"]}).deleted_count
    registers = decode_registers(held)
    kept = {
        key: replace(register, data=matcher.clean(register.data))
        for key, register in registers.items()
        if not matcher.register(key)
    }
    if kept == registers:
        return 0
    guard = {"_id": held["_id"], "rev": held["rev"]}
    if not kept:
        return assets.delete_one(guard).deleted_count
    new = document.build(held["tenant"], name, kept, config)
    new |= {field: held[field] for field in ("seen", "partial", "size") if field in held}
    # Written by another meanwhile: the next round finds it again.
    return assets.replace_one(guard, new | {"rev": held["rev"] + 1}).modified_count


def _single(collection: Collection[Document], held: Document, matcher: Matcher, key: tuple[str, ...]) -> int:
    """An edge or an incident: a register in a document of its own."""
    if any(matcher.text(held.get(field) or "") for field in key):
        return collection.delete_one({"_id": held["_id"]}).deleted_count
    cleaned = {"data": matcher.json_text(held["data"])}
    if "status" in held:
        cleaned["status"] = matcher.redacted(held["status"])
    if all(held[field] == value for field, value in cleaned.items()):
        return 0
    guard = {"_id": held["_id"], "version": held["version"]}
    return collection.update_one(guard, {"$set": cleaned}).modified_count


def _plain(held: Any) -> Any:
    """Without what is no text."""
    if isinstance(held, Mapping):
        return {str(name): _plain(value) for name, value in held.items()}
    if isinstance(held, list):
        return [_plain(value) for value in held]
    return held if isinstance(held, str) else None


class Oplog:
    """The oplog, in which every write of the last while stands once more."""

    def __init__(self, mirror: Database[Document], since: datetime) -> None:
        self._local, self._admin = mirror.client["local"], mirror.client["admin"]
        self._since = since
        self.bytes = int(self._local.command("collStats", "oplog.rs").get("maxSize") or 0)

    def outrun(self) -> bool:
        """Whether its oldest entry is younger than `since`."""
        return _oldest(self._local) > self._since

    def fill(self) -> Iterator[None]:
        """Write more notes than it holds, so that the old is to be cut off; yields after each."""
        for _ in range(int(1.3 * self.bytes / _NOTE_BYTES) + 1):
            self.note(_NOTE_BYTES)
            yield
        # What is cut off is what a checkpoint has: MongoDB makes one each minute, and the journal before it goes too.
        self._admin.command("fsync", 1)

    def note(self, size: int) -> None:
        """One entry that says nothing."""
        self._admin.command({"appendOplogNote": 1, "data": {"fill": Binary(os.urandom(size))}})


def _oldest(local: Database[Document]) -> datetime:
    first = local["oplog.rs"].find_one({}, {"ts": 1}, sort=[("$natural", 1)])
    stamp = first["ts"] if first else Timestamp(0, 1)
    return stamp.as_datetime().astimezone(UTC)
