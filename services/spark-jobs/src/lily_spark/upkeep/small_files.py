"""Many small files of an append-only table into few large ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lily_common.logs import get_logger
from lily_common.metrics import UPKEEP_SECONDS
from lily_spark.config import SparkSettings
from lily_spark.tables import Table, open_table

log = get_logger(__name__)
_TARGET_BYTES = 64 * 1024 * 1024


def merge_small_files(table: Table, settings: SparkSettings, days: int = 2) -> int:
    """Rewrite the small files of the last `days` dates; returns how many files went. Appends may go on meanwhile."""
    removed = 0
    with UPKEEP_SECONDS.labels(table.name, "optimize").time():
        opened = open_table(table, settings)
        today = datetime.now(UTC).date()
        for age in range(days):
            date = (today - timedelta(days=age)).isoformat()
            done = opened.optimize.compact(
                partition_filters=[("date", "=", date)], target_size=_TARGET_BYTES, max_concurrent_tasks=1
            )
            removed += int(done["numFilesRemoved"])
    if removed:
        log.info("small files merged", table=table.name, files=removed)
    return removed
