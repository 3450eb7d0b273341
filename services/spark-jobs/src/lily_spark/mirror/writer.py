"""A micro-batch into the mirror: one Spark stage, no shuffle (a Kafka partition holds each asset's events in order)."""

from __future__ import annotations

import threading
from functools import lru_cache, partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lily_common import metrics
from lily_common.logs import get_logger
from lily_spark.config import spark_settings
from lily_spark.mirror import dead_letters
from lily_spark.mirror.chunk import Counts
from lily_spark.mirror.policy import PolicyReader
from lily_spark.mirror.settings import MirrorConfig
from lily_spark.mirror.store import ensure_indexes, open_mirror
from lily_spark.mirror.task import mirror_partition
from lily_spark.transforms.text import text

log = get_logger(__name__)
QUERY = "mirror"
_prepared: set[str] = set()
_preparing = threading.Lock()


def write_batch(df: DataFrame, batch_id: int) -> Counts:
    """Mirror the batch and return what became of its messages; when this returns, Mongo has it durably.

    `df`: key and value (a JSON event) as string or binary, topic, partition, offset; other columns are ignored.
    Idempotent: a batch may be given again. Raises when Mongo or Kafka cannot be reached; then nothing may be taken
    as done.
    """
    config = current_config()
    counts = _run(df, config)
    if counts.rejects:
        dead_letters.send(spark_settings().kafka_bootstrap, counts.rejects)
    _report(counts, batch_id)
    return counts


def current_config() -> MirrorConfig:
    """The mirror's settings with every tenant's policy of now; the mirror's indexes exist when it returns."""
    settings = spark_settings()
    config = MirrorConfig.of(settings, _policies(settings.kafka_bootstrap).current())
    with _preparing:
        if config.database not in _prepared:
            ensure_indexes(open_mirror(config), config.dedupe)
            _prepared.add(config.database)
    return config


@lru_cache(maxsize=2)
def _policies(bootstrap: str) -> PolicyReader:
    return PolicyReader(bootstrap)


def _run(df: DataFrame, config: MirrorConfig) -> Counts:
    position = F.concat_ws("/", F.col("topic"), F.col("partition"), F.col("offset"))
    texts = (text(F.col(name)).alias(name) for name in ("key", "value"))
    messages = df.select(*texts, position.alias("position"))
    tasks = spark_settings().mirror_tasks
    if tasks:
        parts = messages.coalesce(tasks).rdd.mapPartitions(partial(mirror_partition, config=config)).collect()
    else:
        table = messages.toArrow()
        columns = [column.to_pylist() for column in table.columns]
        parts = list(mirror_partition(zip(*columns, strict=True), config))
    total = Counts()
    for counts in parts:
        total.add(counts)
    return total


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
