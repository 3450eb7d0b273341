"""The stop-list at the door of each stream: what was erased and is still on its way through Kafka ends here."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame

from lily_common.erasing.feed import StopListFeed
from lily_common.erasing.stoplist import Matcher, StopList
from lily_common.logs import get_logger
from lily_spark.config import spark_settings
from lily_spark.transforms.frames import spark_frame

log = get_logger(__name__)
_PLACE = ["topic", "partition", "offset"]


@lru_cache(maxsize=1)
def feed() -> StopListFeed:
    """The process's reader of the stop-list."""
    settings = spark_settings()
    return StopListFeed(settings.kafka_bootstrap, settings.master_key_bytes, "lily-lake-erasures")


def current() -> StopList:
    """The stop-list as of now; raises UnavailableError when it cannot be known: the batch then comes again."""
    return feed().current()


def pass_events(rows: pa.Table, stop: StopList) -> pa.Table:
    """Parsed event rows (tenant, event) without those that are stopped."""
    return _kept(rows, [_event(stop, *row) for row in _columns(rows, "tenant", "event")] if stop else [])


def pass_letters(rows: pa.Table, stop: StopList) -> pa.Table:
    """Messages for the dead letters (key, raw) without those that hold what was erased."""
    return _kept(rows, [_message(stop, *row) for row in _columns(rows, "key", "raw")] if stop else [])


def pass_requests(rows: pa.Table, stop: StopList) -> pa.Table:
    """Rows of bronze.raw without the requests that hold what was erased."""
    return _kept(rows, [_request(stop, *row) for row in _columns(rows, "tenant", "body")] if stop else [])


def pass_changes(batch: DataFrame, stop: StopList) -> DataFrame:
    """Kafka rows of change data without the messages that hold what was erased; read once more only where needed."""
    if not stop:
        return batch
    topics = [row["topic"] for row in batch.select("topic").distinct().collect()]
    concerned = [topic for topic in topics if stop.of(topic_tenant(topic)) is not None]
    if not concerned:
        return batch
    rows = batch.where(batch["topic"].isin(concerned)).select(*_PLACE, "key", "value").toArrow()
    stopped = [
        _change(stop.of(topic_tenant(topic)), key, value)
        for topic, key, value in _columns(rows, "topic", "key", "value")
    ]
    if not any(stopped):
        return batch
    log.info("erased change data stopped", messages=sum(stopped))
    places = spark_frame(batch.sparkSession, rows.select(_PLACE).filter(pa.array(stopped)))
    return batch.join(places, _PLACE, "left_anti")


def topic_tenant(topic: str) -> str:
    """Of `cdc.<tenant>.<source>.<schema>.<table>`."""
    parts = topic.split(".")
    return parts[1] if len(parts) > 1 else ""


def _event(stop: StopList, tenant: str, event: str) -> bool:
    return stop.of(tenant) is not None and stop.stops(tenant, orjson.loads(event))


def _message(stop: StopList, key: bytes | None, value: bytes | None) -> bool:
    matcher = stop.of((key or b"").split(b"|")[0].decode("utf-8", "replace"))
    return matcher is not None and matcher.body(value or b"")


def _request(stop: StopList, tenant: str, body: bytes | None) -> bool:
    matcher = stop.of(tenant)
    return matcher is not None and matcher.body(body or b"")


def _change(matcher: Matcher | None, key: bytes | None, value: bytes | None) -> bool:
    if matcher is None:
        return False
    return matcher.everything or any(matcher.value(_payload(part)) for part in (key, value))


def _payload(part: bytes | None) -> object:
    """What a message of change data says, without its schema."""
    try:
        message = orjson.loads(part or b"null")
    except ValueError:
        return (part or b"").decode("utf-8", "replace")
    return message.get("payload", message) if isinstance(message, dict) else message


def _columns(rows: pa.Table, *names: str) -> zip[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in names), strict=True)


def _kept(rows: pa.Table, stopped: list[bool]) -> pa.Table:
    if not any(stopped):
        return rows
    log.info("erased arrivals stopped", rows=sum(stopped))
    return rows.filter(pa.array([not one for one in stopped]))
