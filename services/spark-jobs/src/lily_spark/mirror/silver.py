"""The lake's register rows as whole assets: what a rebuild and upkeep bring into the mirror."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lily_common.documents import StoredRegister
from lily_spark.mirror.changes import Changes
from lily_spark.mirror.chunk import MAX_BYTES, MAX_EVENTS
from lily_spark.mirror.settings import MirrorConfig

#: Columns of silver.assets that the mirror needs, in this order.
COLUMNS = ("tenant", "subject", "register", "type", "version", "data", "accepted_time")


@dataclass(frozen=True, slots=True)
class Row:
    """One register row; several of one register may come, the greatest version holds."""

    tenant: str
    subject: str
    register: str
    type: str
    version: str
    data: str
    accepted: datetime


#: Writes one chunk of whole assets; returns counts by name.
Write = Callable[[Changes], dict[str, int]]


def by_asset(rows: DataFrame, partitions: int) -> DataFrame:
    """COLUMNS, all rows of an asset in one partition and next to each other."""
    return (
        rows.select(*COLUMNS)
        .repartition(partitions, F.col("tenant"), F.col("subject"))
        .sortWithinPartitions("tenant", "subject")
    )


def run(rows: DataFrame, config: MirrorConfig, write: Write) -> dict[str, int]:
    """Call `write` in the workers for chunks of whole assets of `by_asset` rows; returns the summed counts."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for changes in chunks(_rows(batches), config):
            counts = write(changes)
            yield pa.RecordBatch.from_pydict(
                {"name": list(counts), "count": list(counts.values())},
                schema=pa.schema([("name", pa.string()), ("count", pa.int64())]),
            )

    total: dict[str, int] = {}
    for row in rows.mapInArrow(task, "name string, count long").collect():
        total[row["name"]] = total.get(row["name"], 0) + row["count"]
    return total


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield Row(*values)


def chunks(rows: Iterable[Row], config: MirrorConfig) -> Iterator[Changes]:
    """Changes of bounded size; no asset is split."""
    changes, size = Changes(), 0
    for (tenant, subject), group in groupby(rows, key=lambda row: (row.tenant, row.subject)):
        asset = changes.asset(tenant, subject)
        for row in group:
            register = StoredRegister(row.type, row.version, orjson.loads(row.data), row.accepted)
            changes.put(tenant, subject, row.register, register, config.sensitive_of(tenant))
            asset.size += len(row.data) + len(row.version) + len(row.register) + 100
        size += asset.size
        if size > MAX_BYTES or len(changes.assets) >= MAX_EVENTS:
            yield changes
            changes, size = Changes(), 0
    if changes.assets:
        yield changes
