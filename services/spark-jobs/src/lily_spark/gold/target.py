"""The incremental table in the lake: a layered table like any other, whose commits say what they were made from.

A refresh is one commit. It carries, as Delta's application transactions, the version of each source that it has taken
in, the refresh's number, a digest of the declaration and when every row was last recomputed. They are part of the
table's state: a crash either leaves the commit, with all of that, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lily_spark.cdc.registry import stored
from lily_spark.cdc.tables import ADDED, row_table
from lily_spark.config import SparkSettings
from lily_spark.gold.merging import OP, REMOVE, UPSERT, table_columns
from lily_spark.gold.plan import Plan
from lily_spark.layered import Layered, quoted
from lily_spark.sinks.layers import UpdatesLayer
from lily_spark.storage.snapshots import open_snapshot

_REFRESH, _SPEC, _FULL, _TIME = "refresh", "declaration", "full", "time"


@dataclass(frozen=True)
class State:
    """What the table's last commits say. Times are in milliseconds since 1970, 0: never."""

    refresh: int = 0
    declaration: int = 0
    full_at: int = 0
    sources: Mapping[str, int] | None = None

    def after(self, plan: Plan, versions: Mapping[str, int], *, full: bool) -> dict[str, int]:
        """The transactions of the next commit."""
        now = int(datetime.now(UTC).timestamp() * 1000)
        made = {_source(plan, alias): version for alias, version in versions.items()}
        made |= {_REFRESH: self.refresh + 1, _SPEC: plan.spec.digest, _TIME: now}
        return made | ({_FULL: now} if full else {})


class Target:
    """One table, opened; made anew by `create`. For one thread at a time."""

    def __init__(self, spark: SparkSession, settings: SparkSettings, path: str) -> None:
        self._spark = spark
        self._settings = settings
        self.path = path
        self._updates: UpdatesLayer | None = None

    @property
    def updates(self) -> UpdatesLayer | None:
        """The updates layer; None while there is no table."""
        if self._updates is None:
            layered = stored(self.path, self._settings)
            self._updates = UpdatesLayer(self._settings, layered) if layered else None
        return self._updates

    def reopen(self) -> None:
        """Look at the table afresh: something else than `commit` has written to it."""
        self._updates = None

    def state(self, plan: Plan) -> State | None:
        """None while there is no table."""
        table = open_snapshot(self._settings, self.path)
        if table is None:
            return None
        names = [side.alias for side in plan.spec.sides]
        versions = {alias: table.transaction_version(_source(plan, alias)) for alias in names}
        return State(
            refresh=table.transaction_version(_REFRESH) or 0,
            declaration=table.transaction_version(_SPEC) or 0,
            full_at=table.transaction_version(_FULL) or 0,
            sources={alias: version for alias, version in versions.items() if version is not None},
        )

    def version(self) -> int:
        table = open_snapshot(self._settings, self.path)
        return -1 if table is None else int(table.version())

    def commit(
        self, plan: Plan, rows: pa.Table, state: State, versions: Mapping[str, int], *, full: bool
    ) -> None:
        """Append what `merging` found (OP and the table's columns; perhaps nothing), with what it was made from."""
        updates = self.updates
        if updates is None:
            raise LookupError(f"there is no table {self.path}")
        try:
            stamped = _stamped(rows, state.refresh + 1)
            updates.commit(stamped, state.after(plan, versions, full=full))
        except Exception:
            self.reopen()
            raise

    def create(self, plan: Plan, rows: DataFrame, state: State, versions: Mapping[str, int]) -> None:
        """Put these rows (the table's columns) in the table's place: readers see the old ones until all are there.

        What they were made from is told by a commit after it. A crash in between leaves good rows under no
        declaration: they are then computed once more.
        """
        key = plan.spec.key
        fields = [field for field in _arrow_schema(self._spark, rows) if field.name in table_columns(plan)]
        days = self._settings.tombstone_days
        layered = row_table(self.path, key, fields, buckets=self._settings.gold_buckets, tombstone_days=days)
        whole = rows.select(*map(quoted, table_columns(plan)), *_added(self._spark, state.refresh + 1))
        _replace(layered.placed(whole), self._settings, layered)
        self.reopen()
        updates = self.updates
        if updates is None:
            raise LookupError(f"{self.path} went as soon as it came")
        updates.commit(layered.table.schema.empty_table(), state.after(plan, versions, full=True))

    def drop(self) -> None:
        """Remove the table and its files."""
        path = self._spark.sparkContext._jvm.org.apache.hadoop.fs.Path(  # type: ignore[union-attr]
            self._settings.lake_table(self.path)
        )
        path.getFileSystem(self._spark.sparkContext._jsc.hadoopConfiguration()).delete(path, True)
        self.reopen()


def _source(plan: Plan, alias: str) -> str:
    """A source is what it is called and which table that was: one made anew has versions of its own."""
    return f"source:{alias}:{plan.sources[alias].identity}"


def _stamped(rows: pa.Table, refresh: int) -> pa.Table:
    count = rows.num_rows
    operations = rows.column(OP).to_pylist() if count else []
    now = datetime.now(UTC)
    made = {
        "__version": pa.array([f"{refresh:020d}"] * count, pa.string()),
        "__deleted": pa.array([operation == REMOVE for operation in operations], pa.bool_()),
        "__time": pa.array([now] * count, pa.timestamp("us", "UTC")),
    }
    for name, values in made.items():
        rows = rows.append_column(name, values)
    return rows


def _added(spark: SparkSession, refresh: int) -> list[object]:
    values = {
        "__version": F.lit(f"{refresh:020d}"),
        OP: F.lit(UPSERT),
        "__deleted": F.lit(False),
        "__time": F.lit(datetime.now(UTC)),
    }
    types = spark.createDataFrame(ADDED.empty_table()).schema
    return [values.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in types]


def _arrow_schema(spark: SparkSession, rows: DataFrame) -> pa.Schema:
    """The rows' columns as Arrow has them."""
    empty = pa.table(spark.createDataFrame([], rows.schema).toArrow())
    return pa.schema([field.with_nullable(True) for field in empty.schema])


def _replace(rows: DataFrame, settings: SparkSettings, layered: Layered) -> None:
    table = layered.table
    writer = (
        rows.repartition(layered.buckets, quoted(layered.bucket))
        .sortWithinPartitions(*map(quoted, layered.sort))
        .writeTo(f"delta.`{table.uri(settings)}`")
        .using("delta")
        .partitionedBy(*(F.col(quoted(name)) for name in table.partitions))
    )
    stats = ",".join(table.stats)
    for name, value in (table.properties | {"delta.dataSkippingStatsColumns": stats}).items():
        writer = writer.tableProperty(name, value)
    writer.createOrReplace()
