"""Days of bronze.events that are over, sorted by commit: one minute out of the middle is then a few row groups.

While a day goes on its files are merged as they come, which keeps neighbours in time near one another. When it is over
it is sorted, once: a commit of no files behind that carries the day as its transaction (an optimizing commit of
deltalake takes none).
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
from deltalake import DeltaTable, WriterProperties

from lily_common.logs import get_logger
from lily_common.metrics import UPKEEP_SECONDS
from lily_spark.config import SparkSettings
from lily_spark.sinks.delta import Appender
from lily_spark.tables import EVENTS, open_table

log = get_logger(__name__)
#: Transaction application whose version is the last day sorted, in days since 1970.
SORTED = "lily/events/sorted"
#: A day is left alone for as long after its end as its events may still come in numbers.
_SETTLED = timedelta(days=1)
_ROWS = 20_000
_FILE_BYTES = 128 * 1024 * 1024
_SPILL_BYTES = 256 * 1024 * 1024
_EPOCH = date(1970, 1, 1)


def sort_past_days(settings: SparkSettings, today: date | None = None) -> int:
    """Sort every day that is over and not sorted yet, the oldest first; returns how many."""
    table = open_table(EVENTS, settings)
    note = Appender(EVENTS, settings)
    days = _unsorted(table, (today or datetime.now(UTC).date()) - _SETTLED)
    for day in days:
        with UPKEEP_SECONDS.labels(EVENTS.name, "sort").time():
            table.optimize.z_order(
                ["commit"],
                partition_filters=[("date", "=", day.isoformat())],
                target_size=_FILE_BYTES,
                max_concurrent_tasks=1,
                max_spill_size=_SPILL_BYTES,
                writer_properties=WriterProperties(compression="ZSTD", max_row_group_size=_ROWS),
            )
        note.commit(EVENTS.schema.empty_table(), {SORTED: (day - _EPOCH).days})
        table.update_incremental()
        log.info("day sorted", table=EVENTS.name, day=day.isoformat())
    return len(days)


def _unsorted(table: DeltaTable, end: date) -> list[date]:
    files = pa.table(table.get_add_actions(flatten=True))
    if not files.num_rows:
        return []
    done = table.transaction_version(SORTED)
    begin = date.min if done is None else _EPOCH + timedelta(days=done + 1)
    held = set(files["partition.date"].to_pylist())
    return sorted(day for day in held if begin <= day < end)
