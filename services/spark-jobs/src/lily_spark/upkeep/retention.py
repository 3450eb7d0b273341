"""What leaves bronze.events by age: whole dates that are older than the days *and* the commits that are to be kept."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa

from lily_common.logs import get_logger
from lily_spark.config import SparkSettings
from lily_spark.tables import COMMITS, EVENTS, open_table

log = get_logger(__name__)


def first_kept(
    last_commits: Mapping[date, int], today: date, *, days: int, commits: int, at_least: int
) -> date | None:
    """The first date to keep; None: all of them.

    `last_commits` is the greatest commit of each date. Both measures at 0 keep everything; one at 0 does not count.
    The last `at_least` days stay in any case.
    """
    if not days and not commits:
        return None
    newest = max(last_commits.values(), default=0)
    limit = today - timedelta(days=max(days, at_least))
    old = [
        day for day, last in last_commits.items() if day < limit and (not commits or last <= newest - commits)
    ]
    # A date leaves only with all before it: what is kept has no holes.
    stays = min((day for day in last_commits if day not in old), default=limit)
    return stays if any(day < stays for day in old) else None


def expire_events(settings: SparkSettings) -> date | None:
    """Remove what is past its time; returns the first date kept, None when nothing went.

    The files themselves go with the next VACUUM. Identities are kept in the index for as long as a repeat counts, and
    so are the events of those days, from which it can be built anew.
    """
    if not settings.bronze_keep_days and not settings.bronze_keep_commits:
        return None
    table = open_table(EVENTS, settings)
    files = pa.table(table.get_add_actions(flatten=True))
    if not files.num_rows:
        return None
    grouped = files.group_by("partition.date").aggregate([("max.commit", "max")])
    newest = table.transaction_version(COMMITS) or 0
    days, greatest = grouped["partition.date"].to_pylist(), grouped["max.commit_max"].to_pylist()
    # Without statistics it may be as new as any.
    last_commits = {day: newest if last is None else last for day, last in zip(days, greatest, strict=True)}
    last_commits[datetime.now(UTC).date()] = newest
    first = first_kept(
        last_commits,
        datetime.now(UTC).date(),
        days=settings.bronze_keep_days,
        commits=settings.bronze_keep_commits,
        at_least=settings.dedupe_days + 2,
    )
    if first is not None:
        table.delete(f"date < '{first.isoformat()}'")
        log.info("old events removed", before=first.isoformat())
    return first
