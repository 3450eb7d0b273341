"""The mirror anew from the lake, by one command, while live writes go on.

What the lake holds is merged in by the same code and the same versions as live writes, so nothing newer is ever
overwritten. What the lake does *not* hold is removed, which needs care: a live write may be ahead of the lake. A
register may go only when it was accepted before a moment that the lake has certainly passed (`settled`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any
from uuid import uuid4

from pymongo.database import Database
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lily_common.documents import ASSETS, EDGES, INCIDENTS
from lily_common.logs import get_logger
from lily_spark.config import spark_settings
from lily_spark.mirror import progress
from lily_spark.mirror.rebuilding import Rebuild, SilverRow
from lily_spark.mirror.settings import MirrorConfig
from lily_spark.mirror.store import Document, open_mirror
from lily_spark.mirror.task import rebuild_partition
from lily_spark.mirror.writer import current_config

log = get_logger(__name__)
_BYTES_PER_PARTITION = 64 * 1024 * 1024
#: Assets made whole in one round of `complete_partials`; the next round takes the next ones.
_COMPLETE_AT_ONCE = 5_000


def rebuild(
    spark: SparkSession, tenant: str | None = None, *, settled: datetime | None = None
) -> dict[str, Any]:
    """Bring one tenant's mirror, or all, in line with silver.assets and today's field policies.

    Run it in the lake job's own session: how far the lake has read is asked of its queries. `settled` overrides
    that answer: everything accepted before it is in silver. Returns counts (assets, edges, incidents, removed,
    too_large) and `removal`: "done", or why it was left out.
    """
    config = current_config()
    moment = settled or progress.settled(spark, spark_settings().kafka_bootstrap)
    run = Rebuild(uuid4().hex, moment)
    rows = _silver(spark)
    if tenant is not None:
        rows = rows.where(F.col("tenant") == tenant)
    counts: dict[str, Any] = dict(_run(rows, _partitions(spark), config, run))
    if run.settled is None:
        counts["removal"] = "left out: the lake has not caught up with Kafka"
    else:
        counts["removed"] = remove_unseen(open_mirror(config), tenant, run)
        counts["removal"] = "done"
    log.info("mirror rebuilt", tenant=tenant, **counts)
    return counts


def complete_partials(spark: SparkSession) -> int:
    """Merge the lake's registers into assets that came back after they had expired; returns how many were made whole.

    One Spark job, and none when there is nothing to do. Merging by version makes the order of events irrelevant.
    """
    config = current_config()
    partials = open_mirror(config)[ASSETS].find({"partial": True}, {"tenant": 1, "qualified_name": 1})
    names = _names(partials.limit(_COMPLETE_AT_ONCE))
    if not names:
        return 0
    wanted = spark.createDataFrame(names, "tenant string, subject string")
    rows = _silver(spark).join(F.broadcast(wanted), ["tenant", "subject"], "left_semi")
    return _run(rows, 1, config, Rebuild(id="", settled=None)).get("assets", 0)


def remove_unseen(mirror: Database[Document], tenant: str | None, run: Rebuild) -> int:
    """Delete what this run did not come upon and the lake would have, were it real."""
    scope: dict[str, Any] = {"seen": {"$ne": run.id}} | ({"tenant": tenant} if tenant is not None else {})
    old = scope | {"accepted_at": {"$lt": run.settled}}
    removed = sum(mirror[name].delete_many(old).deleted_count for name in (ASSETS, EDGES, INCIDENTS))
    return removed + mirror[ASSETS].delete_many(scope | {"expired": True}).deleted_count


def _names(found: Iterable[Document]) -> list[tuple[str, str]]:
    return [(each["tenant"], each["qualified_name"]) for each in found]


def _silver(spark: SparkSession) -> DataFrame:
    """Both layers of silver.assets: a register may come more than once."""
    return spark.read.format("delta").load(spark_settings().lake_table("silver/assets"))


def _run(rows: DataFrame, partitions: int, config: MirrorConfig, run: Rebuild) -> dict[str, int]:
    """Rebuild the assets of these rows, each asset's rows brought together by one shuffle."""
    whole = (
        rows.select(*SilverRow._fields)
        .repartition(partitions, F.col("tenant"), F.col("subject"))
        .sortWithinPartitions("tenant", "subject")
    )
    total: dict[str, int] = {}
    for counts in whole.rdd.mapPartitions(partial(rebuild_partition, config=config, run=run)).collect():
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
    return total


def _partitions(spark: SparkSession) -> int:
    """Enough that one partition's rows sort in memory."""
    uri = spark_settings().lake_table("silver/assets")
    size = spark.sql(f"DESCRIBE DETAIL delta.`{uri}`").select("sizeInBytes").first()
    return max(4, int(size[0] or 0) // _BYTES_PER_PARTITION) if size else 4
