"""Tables of two layers: an `updates` layer of small appends over a `primary` layer in static hash buckets.

A row may stand in both layers, and more than once in `updates`; `current` makes of them the one that holds. A bucket
is one file (several when it outgrows one), so that a compaction rewrites just the files whose keys have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lily_common.state import DELETED
from lily_spark.config import SparkSettings
from lily_spark.tables import ASSETS, Table
from lily_spark.transforms.registers import newest, without_buried

UPDATES, PRIMARY = "updates", "primary"


@dataclass(frozen=True)
class Grave:
    """Rows that say of something that it was deleted, `days` ago or more: `column` holds `value`, and `time` when.

    One that does not say when is no grave.
    """

    column: str
    value: str | bool
    time: str
    days: float

    def in_spark(self) -> Column:
        is_old = (F.col(self.column) == F.lit(self.value)) & (F.col(self.time) < F.lit(self._before()))
        return F.coalesce(is_old, F.lit(False))

    def in_arrow(self) -> pc.Expression:
        return (pc.field(self.column) == self.value) & (pc.field(self.time) < self._before())

    def _before(self) -> datetime:
        return datetime.now(UTC) - timedelta(days=self.days)


@dataclass(frozen=True)
class Layered:
    """How one table is layered.

    `hashed` are the columns whose hash is the bucket: all rows of one key must agree in them. `sort` orders a file.
    `current` takes rows of both layers and returns the one row of each key that holds, without what has had its day;
    it need not return the columns `layer` and `bucket`, which are named here as a table's own columns may be called so.
    `grave` tells the rows on whose account `current` lets rows go, touched or not.
    Buckets are numbered from `first_bucket` on.
    """

    table: Table
    hashed: tuple[str, ...]
    sort: tuple[str, ...]
    buckets: int
    current: Callable[[DataFrame], DataFrame]
    grave: Grave
    layer: str = "__layer"
    bucket: str = "__bucket"
    first_bucket: int = 0

    def placed(self, rows: DataFrame) -> DataFrame:
        """`rows` as rows of the primary layer: each in the static hash bucket of its key."""
        columns = [F.col(quoted(name)) for name in self.hashed]
        number = (F.pmod(F.xxhash64(*columns), F.lit(self.buckets)) + self.first_bucket).cast("int")
        placed = rows.withColumn(self.layer, F.lit(PRIMARY)).withColumn(self.bucket, number)
        return placed.select(*self.table.columns)


def united(
    rows: DataFrame,
    key: Sequence[str],
    fold: Callable[[DataFrame], DataFrame],
    *,
    layer: str = "__layer",
) -> DataFrame:
    """Both layers as one: `fold(rows)`, at the cost of a scan. `fold` makes of one row of a key that row itself."""
    updates, primary = rows.where(F.col(layer) == UPDATES), rows.where(F.col(layer) == PRIMARY)
    return folded(primary, updates, key, updates, fold)


def folded(
    primary: DataFrame,
    updates: DataFrame,
    key: Sequence[str],
    touched: DataFrame,
    fold: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """`fold` of the rows whose keys are among `touched`, and all other rows of `primary` as they stand there.

    A key of which only the primary layer knows stands there once, folded. The others are few: they are told to every
    task, instead of every row being moved to its key's.
    """
    # A key may come several times: neither join minds. It may be null: a group of a summary table.
    keys = touched.select(*(F.col(quoted(name)).alias(f"__key{place}") for place, name in enumerate(key)))
    same = [F.col(quoted(name)).eqNullSafe(F.col(f"__key{place}")) for place, name in enumerate(key)]
    whole = fold(primary.join(keys, same, "left_semi").unionByName(updates))
    untouched = primary.join(keys, same, "left_anti")
    return untouched.select(*map(quoted, whole.columns)).unionByName(whole)


def quoted(name: str) -> str:
    """`name` as an identifier in Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def by_bucket(spark: SparkSession, settings: SparkSettings, layered: Layered) -> Iterator[DataFrame]:
    """The rows of both layers, bucket by bucket: each key's are together, and no part is larger than a bucket.

    A row of the updates layer belongs to the bucket that compaction would put it into. Each part is as the table is when
    it is asked for.
    """
    for bucket in range(layered.first_bucket, layered.first_bucket + layered.buckets):
        held = spark.read.format("delta").load(layered.table.uri(settings))
        updates = layered.placed(held.where(F.col(layered.layer) == UPDATES))
        primary = held.where(F.col(layered.layer) == PRIMARY).select(*updates.columns)
        yield primary.unionByName(updates).where(F.col(layered.bucket) == bucket)


def assets(settings: SparkSettings) -> Layered:
    """silver.assets."""

    grave = Grave("register", DELETED, "accepted_time", settings.tombstone_days)

    return Layered(
        ASSETS,
        hashed=("tenant", "subject"),
        sort=("tenant", "subject", "register"),
        buckets=settings.silver_buckets,
        current=lambda rows: without_buried(newest(rows), grave.in_spark()),
        grave=grave,
        layer="layer",
        bucket="bucket",
    )
