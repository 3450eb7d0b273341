"""Lineage edges and incidents: documents of their own, each one register, written only over an older version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pymongo import UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from lily_spark.mirror.store import Document

_DUPLICATE = 11000


def upsert(
    collection: Collection[Document], documents: Iterable[dict[str, Any]], *, over: str = "$lt"
) -> int:
    """Write each document unless a newer version is stored; returns how many were written.

    `over`: `$lt` replaces older versions only, `$lte` the same one too (a rebuild, whose policy may be another).

    When the stored one is as new or newer, the filter misses and the upsert meets its key. It meets it too when
    another writer inserted an older version at the same instant: those are tried once more, as plain updates.
    """
    by_id = {document["_id"]: document for document in documents}
    if not by_id:
        return 0
    written, met = _send(collection, [_guarded(document, over, upsert=True) for document in by_id.values()])
    if met:
        again, _ = _send(collection, [_guarded(by_id[name], over, upsert=False) for name in met])
        written += again
    return written


def _guarded(document: dict[str, Any], over: str, *, upsert: bool) -> UpdateOne:
    guard = {"_id": document["_id"], "version": {over: document["version"]}}
    content = {name: value for name, value in document.items() if name != "_id"}
    return UpdateOne(guard, {"$set": content}, upsert=upsert)


def _send(collection: Collection[Document], operations: list[UpdateOne]) -> tuple[int, list[Any]]:
    """(documents written, ids that exist in the way of an upsert)."""
    try:
        result = collection.bulk_write(operations, ordered=False)
    except BulkWriteError as failed:
        details = failed.details
        if details.get("writeConcernErrors") or any(e["code"] != _DUPLICATE for e in details["writeErrors"]):
            raise
        met = [error["op"]["q"]["_id"] for error in details["writeErrors"]]
        return int(details["nUpserted"] + details["nMatched"]), met
    return result.upserted_count + result.matched_count, []
