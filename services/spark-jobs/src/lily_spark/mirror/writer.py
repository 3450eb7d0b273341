"""A micro-batch into the mirror: one Spark stage, no shuffle (a Kafka partition holds each asset's events in order)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import asdict
from functools import lru_cache

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lily_common import metrics
from lily_common.config import settings
from lily_common.logs import get_logger
from lily_spark.mirror import dead_letters
from lily_spark.mirror.changes import Message, Reject
from lily_spark.mirror.chunk import Counts, chunks, mirror_chunk
from lily_spark.mirror.policy import PolicyReader
from lily_spark.mirror.settings import MirrorConfig
from lily_spark.mirror.store import ensure_indexes, open_mirror

log = get_logger(__name__)
QUERY = "mirror"
_prepared: set[str] = set()
_preparing = threading.Lock()

#: What a task tells the driver: one row per count, and one per message for the dead-letter topic.
_REPORT = StructType(
    [
        StructField("kind", StringType(), nullable=False),
        StructField("count", LongType(), nullable=False),
        *(StructField(name, StringType()) for name in ("reason", "key", "value", "position")),
    ]
)
_ARROW_REPORT = pa.schema(
    [("kind", pa.string()), ("count", pa.int64())]
    + [(name, pa.string()) for name in ("reason", "key", "value", "position")]
)
_COUNTED = ("events", "written", "repeats", "conflicts", "stale", "unreadable")


def write_batch(df: DataFrame, batch_id: int) -> Counts:
    """Mirror the batch and return what became of its messages; when this returns, Mongo has it durably.

    `df`: key and value (a JSON event) as string or binary, topic, partition, offset; other columns are ignored. Idempotent: a batch
    may be given again. Raises when Mongo or Kafka cannot be reached; then nothing may be taken as done.
    """
    config = current_config()
    counts = _collect(df, config)
    if counts.rejects:
        dead_letters.send(settings().kafka_bootstrap, counts.rejects)
    _report(counts, batch_id)
    return counts


@lru_cache(maxsize=2)
def _policies(bootstrap: str) -> PolicyReader:
    return PolicyReader(bootstrap)


def current_config() -> MirrorConfig:
    """The mirror's settings with every tenant's policy of now; the mirror's indexes exist when it returns."""
    config = MirrorConfig.of(settings(), _policies(settings().kafka_bootstrap).current())
    with _preparing:
        if config.database not in _prepared:
            ensure_indexes(open_mirror(config), config.dedupe)
            _prepared.add(config.database)
    return config


def _collect(df: DataFrame, config: MirrorConfig) -> Counts:
    def mirror(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = Counts()
        for chunk in chunks(_messages(batches)):
            counts.add(mirror_chunk(open_mirror(config), chunk, config))
        yield _rows(counts)

    position = F.concat_ws("/", F.col("topic"), F.col("partition"), F.col("offset"))
    texts = (F.col(name).cast("string").alias(name) for name in ("key", "value"))
    messages = df.select(*texts, position.alias("position"))
    total = Counts()
    for row in messages.mapInArrow(mirror, _REPORT).collect():
        if row["kind"] == "reject":
            message = Message(row["key"], row["value"], row["position"])
            total.rejects.append(Reject(row["reason"], message))
        else:
            setattr(total, row["kind"], getattr(total, row["kind"]) + row["count"])
    return total


def _messages(batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
    for batch in batches:
        columns = (column.to_pylist() for column in batch.columns)
        yield from (
            Message(key, value or "", position) for key, value, position in zip(*columns, strict=True)
        )


def _rows(counts: Counts) -> pa.RecordBatch:
    rows: list[dict[str, object]] = [{"kind": name, "count": getattr(counts, name)} for name in _COUNTED]
    rows += [
        {"kind": "reject", "count": 1, "reason": reject.reason, **asdict(reject.message)}
        for reject in counts.rejects
    ]
    return pa.RecordBatch.from_pylist(rows, schema=_ARROW_REPORT)


def _report(counts: Counts, batch_id: int) -> None:
    """Rows and times of the query are reported by the query's listener."""
    metrics.STREAM_REPEATS.labels(QUERY).inc(counts.repeats)
    metrics.STREAM_CONFLICTS.labels(QUERY).inc(counts.conflicts)
    if counts.rejects:
        metrics.STREAM_DLQ.labels(QUERY, "document too large").inc(len(counts.rejects))
    if counts.conflicts or counts.rejects or counts.unreadable:
        log.warning(
            "mirror batch with refused messages",
            batch=batch_id,
            conflicts=counts.conflicts,
            rejects=len(counts.rejects),
            unreadable=counts.unreadable,
        )
