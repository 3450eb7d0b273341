"""Chosen tables of change data in MongoDB: the newest row of each key, chosen columns, for as long as the tenant says.

A table's collection is called as its topic. A document is written only over an older version of its row; a delete leaves
a tombstone with its version, so that a row that comes late brings nothing back. Fields of Lily's own begin with `__`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
from bson import Decimal128
from pymongo import ASCENDING, IndexModel, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from lily_spark.cdc.sources import MirroredTable
from lily_spark.cdc.topics import Capture
from lily_spark.config import SparkSettings
from lily_spark.mirror.settings import MirrorConfig
from lily_spark.mirror.store import Document, open_mirror

#: One document for each mirrored table: `_id` (topic), columns, ttl_days: what the collection was last filled with.
MIRRORS = "cdc_mirrors"
_DUPLICATE = 11000
_CHUNK = 1000


class CdcMirror:
    """Writes folded rows. Thread-safe."""

    def __init__(self, settings: SparkSettings) -> None:
        self._config = MirrorConfig.of(settings)
        self._ready: set[str] = set()
        self._lock = threading.Lock()

    def write(
        self,
        capture: Capture,
        chosen: MirroredTable,
        rows: pa.Table,
        key: Sequence[str],
        *,
        over: str = "$lt",
    ) -> int:
        """Bring `rows` (one a key, with Lily's columns) into the mirror; returns how many documents were written.

        `over`: `$lt` replaces older versions only, `$lte` the same one too (another choice of columns). Idempotent.
        """
        collection = self.collection(capture, key)
        written = 0
        now = datetime.now(UTC)
        for batch in rows.to_batches(max_chunksize=_CHUNK):
            operations = [
                _operation(row, key, chosen, now, self._config.keep_deleted, over)
                for row in batch.to_pylist(maps_as_pydicts="lossy")
            ]
            written += _send(collection, operations)
        return written

    def collection(self, capture: Capture, key: Sequence[str]) -> Collection[Document]:
        """The table's collection, with its indexes: the key's columns, and the end of each document's days."""
        collection = open_mirror(self._config)[capture.topic]
        with self._lock:
            if capture.topic not in self._ready:
                indexes = [IndexModel([("__expires_at", ASCENDING)], expireAfterSeconds=0)]
                if fields := [(name, ASCENDING) for name in key if name != "_id"]:
                    indexes.append(IndexModel(fields))
                collection.create_indexes(indexes)
                self._ready.add(capture.topic)
        return collection

    def filled(self) -> dict[str, Document]:
        """Topic -> what its collection was last filled with."""
        return {document["_id"]: document for document in open_mirror(self._config)[MIRRORS].find()}

    def note(self, capture: Capture, chosen: MirroredTable) -> None:
        """The collection holds what was chosen."""
        mirrors = open_mirror(self._config)[MIRRORS]
        mirrors.replace_one({"_id": capture.topic}, noted(chosen), upsert=True)

    def drop(self, topic: str) -> None:
        """What is chosen no longer leaves the mirror."""
        mirror = open_mirror(self._config)
        mirror.drop_collection(topic)
        mirror[MIRRORS].delete_one({"_id": topic})
        with self._lock:
            self._ready.discard(topic)


def noted(chosen: MirroredTable) -> Document:
    """What stands in MIRRORS of a table that is mirrored so."""
    return {"columns": sorted(chosen.columns), "ttl_days": chosen.ttl_days}


def document_id(row: dict[str, Any], key: Sequence[str]) -> str:
    """The key's values as a JSON array, in the order of the key's columns."""
    return orjson.dumps([row[name] for name in key], default=str).decode()


def _operation(
    row: dict[str, Any],
    key: Sequence[str],
    chosen: MirroredTable,
    now: datetime,
    keep_deleted: timedelta,
    over: str,
) -> UpdateOne:
    guard = {"_id": document_id(row, key), "__version": {over: row["__version"]}}
    shown = {*key, *chosen.columns} - {"_id"}
    lacking = set(row["__unavailable"] or ())
    changes: dict[str, Any] = {
        "__version": row["__version"],
        "__deleted": bool(row["__deleted"]),
        "__source_time": row["__source_time"],
    }
    gone: list[str] = []
    if row["__deleted"]:
        changes["__expires_at"] = now + keep_deleted
        gone = sorted(shown - set(key))
    else:
        changes |= {name: _bson(row[name]) for name in shown if name in row and name not in lacking}
        ends = row["__source_time"] or row["__time"] or now
        if chosen.ttl_days is not None:
            changes["__expires_at"] = ends + timedelta(days=chosen.ttl_days)
        else:
            gone = ["__expires_at"]
    update: dict[str, Any] = {"$set": changes}
    if over == "$lte":  # the choice of columns may be another than before
        gone += [name for name in row if name not in shown and name != "_id" and not name.startswith("__")]
    if gone:
        update["$unset"] = dict.fromkeys(gone, "")
    return UpdateOne(guard, update, upsert=True)


def _send(collection: Collection[Document], operations: list[UpdateOne]) -> int:
    """Documents written; where a version as new is stored, the upsert meets its key and does nothing."""
    if not operations:
        return 0
    try:
        result = collection.bulk_write(operations, ordered=False)
    except BulkWriteError as failed:
        details = failed.details
        if details.get("writeConcernErrors") or any(e["code"] != _DUPLICATE for e in details["writeErrors"]):
            raise
        return int(details["nUpserted"] + details["nMatched"])
    return result.upserted_count + result.matched_count


def _bson(value: Any) -> Any:
    """The value as BSON can hold it."""
    if isinstance(value, Decimal):
        return Decimal128(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time(), UTC)
    if isinstance(value, dict):
        return {name: _bson(held) for name, held in value.items()}
    if isinstance(value, list):
        return [_bson(held) for held in value]
    return value
