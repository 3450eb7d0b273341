"""Upkeep of the mirror: what is no longer recent leaves it. Run on a schedule (and `rebuild.complete_partials`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pymongo import DeleteMany
from pymongo.database import Database

from lily_common.documents import ASSETS, EDGES, INCIDENTS
from lily_spark.mirror.store import Document

_PURGE_BATCH = 500
_ENDS = ("upstream", "downstream")


def expire(mirror: Database[Document], now: datetime) -> dict[str, int]:
    """Put stubs in the place of assets that are no longer recent, and purge old tombstones with all they hid.

    Each step is atomic per document and can be repeated. Returns counts: expired, purged.
    """
    stub: dict[str, Any] = {
        "_id": "$_id",
        "tenant": "$tenant",
        "qualified_name": "$qualified_name",
        "expired": True,
        "rev": {"$add": ["$rev", 1]},
        "seen": "$seen",
    }
    old = {"expires_at": {"$lte": now}}
    expired = mirror[ASSETS].update_many(old | {"deleted": False}, [{"$replaceWith": stub}]).modified_count
    return {"expired": expired, "purged": _purge(mirror, old | {"deleted": True})}


def _purge(mirror: Database[Document], tombstones: dict[str, Any]) -> int:
    """Edges and incidents go first: a tombstone must not go while something older that it hides is there."""
    purged = 0
    while True:
        projection = {"tenant": 1, "qualified_name": 1, "tombstone": 1}
        found = list(mirror[ASSETS].find(tombstones, projection, limit=_PURGE_BATCH))
        if not found:
            return purged
        mirror[EDGES].bulk_write([DeleteMany(_hidden(asset, end)) for asset in found for end in _ENDS])
        mirror[INCIDENTS].bulk_write([DeleteMany(_hidden(asset, "qualified_name")) for asset in found])
        names = [asset["_id"] for asset in found]
        # The condition again: an asset that came back in between is not deleted.
        purged += mirror[ASSETS].delete_many(tombstones | {"_id": {"$in": names}}).deleted_count


def _hidden(asset: Document, end: str) -> dict[str, Any]:
    return {
        "tenant": asset["tenant"],
        end: asset["qualified_name"],
        "version": {"$lt": asset["tombstone"]},
    }
