"""How far the lake job's queries have read, asked of themselves: what was accepted before then is in the lake."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lily_common.events import BULK_TOPIC, PRIORITY_TOPIC
from lily_common.kafka import consumer_config

#: (topic, partition) -> offset
Offsets = Mapping[tuple[str, int], int]

#: An event stamped longer ago than this is in Kafka, or its request was answered with an error.
_IN_FLIGHT = timedelta(minutes=5)
#: A query that has found nothing to read for so long has read all there was at the start.
_IDLE_SECONDS = 5.0
_POLL_SECONDS = 0.1


def settled(spark: SparkSession, bootstrap: str, *, timeout: float = 300) -> datetime | None:
    """Wait until every query that reads changes has read all that Kafka holds now.

    Returns the moment before which everything accepted is in the lake; None without running queries or when
    they do not get there within `timeout` seconds.
    """
    started = datetime.now(UTC)
    ends = _end_offsets(bootstrap)
    deadline = time.monotonic() + timeout
    idle_since: dict[str, float] = {}
    while time.monotonic() < deadline:
        queries = [query for query in spark.streams.active if _reads_changes(query)]
        if not queries:
            return None
        if all(_passed(query, ends) or _idle(query, idle_since) for query in queries):
            return started - _IN_FLIGHT
        time.sleep(_POLL_SECONDS)
    return None


def _end_offsets(bootstrap: str) -> Offsets:
    consumer = Consumer(consumer_config(bootstrap, "lily-mirror-rebuild"))
    try:
        ends: dict[tuple[str, int], int] = {}
        for topic in (PRIORITY_TOPIC, BULK_TOPIC):
            for partition in consumer.list_topics(topic, timeout=10).topics[topic].partitions:
                _low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
                ends[topic, partition] = high
        return ends
    finally:
        consumer.close()


def _sources(query: StreamingQuery) -> list[dict[str, Any]]:
    last = query.lastProgress
    return list(json.loads(last.json)["sources"]) if last is not None else []


def _reads_changes(query: StreamingQuery) -> bool:
    """A query without progress yet is taken to read them: it may."""
    sources = _sources(query)
    return not sources or any(
        topic in str(source.get("description", ""))
        for source in sources
        for topic in (PRIORITY_TOPIC, BULK_TOPIC)
    )


def _passed(query: StreamingQuery, ends: Offsets) -> bool:
    """Whether its last finished batch reaches these offsets, for the topics that it reads."""
    sources = _sources(query)
    reached: dict[str, dict[str, int]] = {}
    for source in sources:
        end = source.get("endOffset")
        if isinstance(end, dict):
            reached |= end
    known = {topic for topic, _ in ends if topic in reached}
    return bool(known) and all(
        reached[topic].get(str(partition), -1) >= end
        for (topic, partition), end in ends.items()
        if topic in known
    )


def _idle(query: StreamingQuery, since: dict[str, float]) -> bool:
    """Whether it has looked for data again and again and found none; one that has just started says no more."""
    status = query.status
    key, now = str(query.runId), time.monotonic()
    if status.get("isDataAvailable") or str(status.get("message", "")).startswith("Initializing"):
        since.pop(key, None)
        return False
    return now - since.setdefault(key, now) >= _IDLE_SECONDS
