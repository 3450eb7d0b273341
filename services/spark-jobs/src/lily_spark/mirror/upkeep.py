"""Upkeep of the mirror: what is no longer recent leaves it, what came back is made whole. Run on a schedule."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pymongo import DeleteMany
from pymongo.database import Database
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lily_common.documents import ASSETS, EDGES, INCIDENTS
from lily_spark.mirror import rebuild, silver
from lily_spark.mirror.store import Document, open_mirror
from lily_spark.mirror.writer import current_config

_PURGE_BATCH = 500
#: Assets made whole in one round; the next round takes the next ones.
_COMPLETE_BATCH = 5_000


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


_ENDS = ("upstream", "downstream")


def _hidden(asset: Document, end: str) -> dict[str, Any]:
    return {
        "tenant": asset["tenant"],
        end: asset["qualified_name"],
        "version": {"$lt": asset["tombstone"]},
    }


def complete_partials(spark: SparkSession) -> int:
    """Merge the lake's registers into assets that came back after they had expired; returns how many were made whole.

    One Spark job, and none when there is nothing to do. Merging by version makes the order of events irrelevant.
    """
    config = current_config()
    names = _partials(open_mirror(config)[ASSETS].find({"partial": True}, {"tenant": 1, "qualified_name": 1}))
    if not names:
        return 0
    wanted = spark.createDataFrame(names, "tenant string, subject string")
    rows = rebuild.read_silver(spark).join(F.broadcast(wanted), ["tenant", "subject"], "left_semi")
    keep_all = rebuild.Rebuild(id="", settled=None)
    counts = silver.run(
        silver.by_asset(rows, 1), config, lambda changes: rebuild.write(changes, config, keep_all)
    )
    return counts.get("assets", 0)


def _partials(found: Iterable[Document]) -> list[tuple[str, str]]:
    return [
        (each["tenant"], each["qualified_name"])
        for each, _ in zip(found, range(_COMPLETE_BATCH), strict=False)
    ]
