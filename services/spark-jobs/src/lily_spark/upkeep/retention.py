"""What leaves bronze.events by age: whole dates that are older than the days *and* the commits that are to be kept.

What they came to stays, in silver.past: the newest of each register that they wrote. The state at any time since the
first date that is kept can thus still be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lily_common.logs import get_logger
from lily_spark.config import SparkSettings
from lily_spark.sinks.delta import Appender
from lily_spark.tables import COMMITS, EVENTS, PAST, open_table
from lily_spark.transforms.registers import COLUMNS, newest, registers

log = get_logger(__name__)
#: Transaction application of bronze.events whose version is the first date kept, in days since 1970.
KEPT_FROM = "lily/events/kept-from"
_EPOCH = date(1970, 1, 1)


def first_kept(
    last_commits: Mapping[date, int], today: date, *, days: int, commits: int, at_least: int
) -> date | None:
    """The first date to keep; None: all of them.

    `last_commits` is the greatest commit of each date. Both measures at 0 keep everything; one at 0 does not count.
    The last `at_least` days stay in any case.
    """
    if not days and not commits:
        return None
    newest_commit = max(last_commits.values(), default=0)
    limit = today - timedelta(days=max(days, at_least))
    old = [
        day
        for day, last in last_commits.items()
        if day < limit and (not commits or last <= newest_commit - commits)
    ]
    # A date leaves only with all before it: what is kept has no holes.
    stays = min((day for day in last_commits if day not in old), default=limit)
    return stays if any(day < stays for day in old) else None


def expire_events(spark: SparkSession, settings: SparkSettings) -> date | None:
    """Remove what is past its time; returns the first date kept, None when nothing went.

    Done in an order that a crash may cut anywhere: what the events came to is kept before they go. The files themselves
    go with the next VACUUM. Identities are kept in the index for as long as a repeat counts, and so are the events of
    those days, from which it can be built anew.
    """
    if not settings.bronze_keep_days and not settings.bronze_keep_commits:
        return None
    first = _due(settings)
    if first is not None:
        _keep_state(spark, settings, first)
        Appender(EVENTS, settings).commit(EVENTS.schema.empty_table(), {KEPT_FROM: (first - _EPOCH).days})
        open_table(EVENTS, settings).delete(f"date < '{first.isoformat()}'")
        log.info("old events removed", before=first.isoformat())
    return first


def _due(settings: SparkSettings) -> date | None:
    table, today = open_table(EVENTS, settings), datetime.now(UTC).date()
    files = pa.table(table.get_add_actions(flatten=True))
    if not files.num_rows:
        return None
    grouped = files.group_by("partition.date").aggregate([("max.commit", "max")])
    last = table.transaction_version(COMMITS) or 0
    days, greatest = grouped["partition.date"].to_pylist(), grouped["max.commit_max"].to_pylist()
    # Without statistics it may be as new as any.
    last_commits = {day: last if known is None else known for day, known in zip(days, greatest, strict=True)}
    return first_kept(
        last_commits | {today: last},
        today,
        days=settings.bronze_keep_days,
        commits=settings.bronze_keep_commits,
        at_least=settings.dedupe_days + 2,
    )


def _keep_state(spark: SparkSession, settings: SparkSettings, first: date) -> None:
    """Add to silver.past what the leaving events came to."""
    events = spark.read.format("delta").load(EVENTS.uri(settings)).where(F.col("date") < F.lit(first))
    held = spark.read.format("delta").load(PAST.uri(settings)).select(*COLUMNS)
    kept = newest(registers(_with_data(events)).unionByName(held))
    kept.write.format("delta").mode("overwrite").partitionBy(*PAST.partitions).save(PAST.uri(settings))


def _with_data(events: DataFrame) -> DataFrame:
    """Rows of bronze with the payload's JSON text."""
    return events.withColumn("data", F.from_json("event", "data STRING")["data"])
