"""A collected micro-batch to the rows of each table: Arrow table in, Arrow table out, pure."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lily_spark.tables import EVENTS
from lily_spark.transforms.registers import COLUMNS, KEY


def split(batch: pa.Table) -> tuple[pa.Table, pa.Table]:
    """(rows that can be processed, rows that cannot) of a batch of event rows."""
    fine = pc.is_null(batch["problem"])
    return batch.filter(fine), batch.filter(pc.invert(fine))


def in_kafka_order(events: pa.Table) -> pa.Table:
    """By place in Kafka: of two messages with one identity, the same one is first however often they are read."""
    return events.sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])


def bronze_rows(events: pa.Table) -> pa.Table:
    """Rows of bronze.events, but for the number of the commit that will bring them (see `numbered`)."""
    return events.select([name for name in EVENTS.columns if name != "commit"])


def numbered(rows: pa.Table, commit: int) -> pa.Table:
    """`rows` as those of this commit."""
    return rows.append_column("commit", pa.array([commit] * rows.num_rows, pa.int64()))


def silver_rows(events: pa.Table) -> pa.Table:
    """Rows of silver.assets, without layer and bucket: of each register that the batch writes, the greatest version."""
    events = events.combine_chunks()
    row = pc.list_parent_indices(events["registers"])
    rows = events.take(row).append_column("register", pc.list_flatten(events["registers"]))
    newest = rows.append_column("row", pa.array(range(rows.num_rows), pa.int64()))
    newest = newest.select([*KEY, "version", "row"]).sort_by([("version", "descending")])
    first = newest.group_by(list(KEY), use_threads=False).aggregate([("row", "first")])
    return rows.take(first["row_first"]).rename_columns({"id": "event_id"}).select(list(COLUMNS))
