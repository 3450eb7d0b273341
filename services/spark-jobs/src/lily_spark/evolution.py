"""Tables from before: what this version of Lily expects of a table is added to it when the lake job starts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction

from lily_common.logs import get_logger
from lily_spark.config import SparkSettings
from lily_spark.tables import COMMITS, EVENTS, Table, open_table

log = get_logger(__name__)
_STATS = "delta.dataSkippingStatsColumns"


def evolve(table: Table, settings: SparkSettings) -> DeltaTable:
    """The table, made when there is none, with every column of `table`; a column that is added is null in old rows."""
    opened = open_table(table, settings)
    held = {field.name for field in opened.schema().fields}
    missing: list[Field] = [f for f in Schema.from_arrow(table.schema).fields if f.name not in held]
    if missing:
        opened.alter.add_columns(missing)
        log.info("columns added", table=table.name, columns=[field.name for field in missing])
    stats = ",".join(table.stats)
    if opened.metadata().configuration.get(_STATS) != stats:
        opened.alter.set_table_properties({_STATS: stats}, raise_if_not_exists=False)
    return opened


def number_events(settings: SparkSettings) -> None:
    """Give rows from before commits were numbered a number by the second of their acceptance, in one rewrite.

    Done once, before anything is appended; new commits count on from there.
    """
    table = open_table(EVENTS, settings)
    files = pa.table(table.get_add_actions(flatten=True))
    if not files.num_rows or table.transaction_version(COMMITS) is not None:
        return
    seconds = "CAST(date_part('epoch', accepted_time) AS BIGINT)"
    accepted = pc.min_max(pc.cast(files["min.accepted_time"], pa.timestamp("us", "UTC"))).as_py()
    latest = pc.max(pc.cast(files["max.accepted_time"], pa.timestamp("us", "UTC"))).as_py()
    before = int(accepted["min"].timestamp()) - 1
    last = int(latest.timestamp()) - before + 1
    table.update(
        updates={"commit": f"{seconds} - {before}"},
        predicate="commit IS NULL",
        commit_properties=CommitProperties(app_transactions=[Transaction(COMMITS, last)]),
    )
    log.info("old events numbered", last_commit=last)
