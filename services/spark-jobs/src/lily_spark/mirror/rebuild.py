"""The mirror anew from the lake, by one command, while live writes go on.

What the lake holds is merged in by the same code and the same versions as live writes, so nothing newer is ever
overwritten. What the lake does *not* hold is removed, which needs care: a live write may be ahead of the lake. A
register may go only when it was accepted before a moment that the lake has certainly passed (`settled`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from pymongo.database import Database
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lily_common.config import settings
from lily_common.documents import ASSETS, EDGES, INCIDENTS
from lily_common.logs import get_logger
from lily_spark.mirror import assets, document, progress, relations, silver
from lily_spark.mirror.changes import AssetChange, Changes
from lily_spark.mirror.settings import MirrorConfig
from lily_spark.mirror.store import Document, open_mirror
from lily_spark.mirror.writer import current_config

log = get_logger(__name__)
_BYTES_PER_PARTITION = 64 * 1024 * 1024
_EVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Rebuild:
    """One run. `id` marks what it has come upon (empty: nothing); `settled` None: nothing may be removed."""

    id: str
    settled: datetime | None


def rebuild(
    spark: SparkSession, tenant: str | None = None, *, settled: datetime | None = None
) -> dict[str, Any]:
    """Bring one tenant's mirror, or all, in line with silver.assets and today's field policies.

    Run it in the lake job's own session: how far the lake has read is asked of its queries. `settled` overrides
    that answer: everything accepted before it is in silver. Returns counts (assets, edges, incidents, removed, too_large)
    and `removal`: "done", or why it was left out.
    """
    config = current_config()
    moment = settled or progress.settled(spark, settings().kafka_bootstrap)
    run = Rebuild(uuid4().hex, moment)
    rows = read_silver(spark)
    if tenant is not None:
        rows = rows.where(F.col("tenant") == tenant)
    counts: dict[str, Any] = dict(
        silver.run(
            silver.by_asset(rows, _partitions(spark)), config, lambda changes: write(changes, config, run)
        )
    )
    if run.settled is None:
        counts["removal"] = "left out: the lake has not caught up with Kafka"
    else:
        counts["removed"] = remove_unseen(open_mirror(config), tenant, run)
        counts["removal"] = "done"
    log.info("mirror rebuilt", tenant=tenant, **counts)
    return counts


def write(changes: Changes, config: MirrorConfig, run: Rebuild) -> dict[str, int]:
    """One chunk of whole assets, in a worker."""
    mirror = open_mirror(config)
    now = datetime.now(UTC)
    mark = {"seen": run.id} if run.id else {}

    def merge(stored: Any, change: AssetChange) -> dict[str, Any]:
        new = document.rebuilt(stored, change, config, run.settled or _EVER)
        if new["expires_at"] <= now and not new["deleted"]:
            new = document.stub(change.tenant, change.qualified_name, new["rev"]) | {"size": 0}
        return new | mark

    for collection, documents in ((EDGES, changes.edges), (INCIDENTS, changes.incidents)):
        relations.upsert(mirror[collection], [found | mark for found in documents.values()], over="$lte")
    outcome = assets.write(mirror[ASSETS], changes.assets, merge)
    return {
        "assets": len(changes.assets),
        "edges": len(changes.edges),
        "incidents": len(changes.incidents),
        "too_large": len(outcome.too_large),
    }


def remove_unseen(mirror: Database[Document], tenant: str | None, run: Rebuild) -> int:
    """Delete what this run did not come upon and the lake would have, were it real."""
    scope: dict[str, Any] = {"seen": {"$ne": run.id}} | ({"tenant": tenant} if tenant is not None else {})
    old = scope | {"accepted_at": {"$lt": run.settled}}
    removed = sum(mirror[name].delete_many(old).deleted_count for name in (ASSETS, EDGES, INCIDENTS))
    return removed + mirror[ASSETS].delete_many(scope | {"expired": True}).deleted_count


def read_silver(spark: SparkSession) -> DataFrame:
    """Both layers of silver.assets: a register may come more than once."""
    return spark.read.format("delta").load(settings().lake_table("silver/assets"))


def _partitions(spark: SparkSession) -> int:
    """Enough that one partition's rows sort in memory."""
    uri = settings().lake_table("silver/assets")
    size = spark.sql(f"DESCRIBE DETAIL delta.`{uri}`").select("sizeInBytes").first()
    return max(4, int(size[0] or 0) // _BYTES_PER_PARTITION) if size else 4
