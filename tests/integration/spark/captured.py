"""A captured table for tests: messages put on its topic as Connect would, and what readers of the lake see of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from lily_common.kafka import producer_config
from lily_spark.cdc.topics import Capture

PARTITIONS = 2


class Captured:
    """One table of one source. Reads through deltalake alone, as a reader that shares nothing with the job."""

    def __init__(self, environment: Mapping[str, str], capture: Capture) -> None:
        self.capture = capture
        self._environment = environment
        self._producer = Producer(producer_config(environment["KAFKA_BOOTSTRAP"]))
        self._admin = AdminClient({"bootstrap.servers": environment["KAFKA_BOOTSTRAP"]})
        self._admin.create_topics([NewTopic(capture.topic, PARTITIONS, 1)])[capture.topic].result(30)

    def send(self, *messages: tuple[bytes | None, bytes | None], partition: int | None = None) -> None:
        """Return when all are acknowledged."""
        for key, value in messages:
            place = {} if partition is None else {"partition": partition}
            self._producer.produce(self.capture.topic, value, key, **place)
            self._producer.poll(0)
        assert self._producer.flush(30) == 0

    def delete_topic(self) -> None:
        self._admin.delete_topics([self.capture.topic])[self.capture.topic].result(30)

    def drop_before(self, partition: int, offset: int) -> None:
        """As Kafka's retention does."""
        place = TopicPartition(self.capture.topic, partition, offset)
        self._admin.delete_records([place])[place].result(30)

    def table(self) -> DeltaTable:
        base = self._environment["LAKE_URI"].rstrip("/").replace("s3a://", "s3://", 1)
        options = {
            "AWS_ENDPOINT_URL": self._environment["S3_ENDPOINT"],
            "AWS_ACCESS_KEY_ID": self._environment["S3_ACCESS_KEY"],
            "AWS_SECRET_ACCESS_KEY": self._environment["S3_SECRET_KEY"],
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        return DeltaTable(f"{base}/{self.capture.path}", storage_options=options)

    def rows(self) -> list[dict[str, Any]]:
        """Every row of both layers; none while there is no table."""
        try:
            found: pa.Table = self.table().to_pyarrow_table()
        except TableNotFoundError:
            return []
        rows: list[dict[str, Any]] = found.to_pylist(maps_as_pydicts="lossy")
        return rows

    def latest(self, *key: str) -> dict[tuple[Any, ...], dict[str, Any]]:
        """The newest row of each key that is there, without Lily's columns."""
        return newest(self.rows(), key)


def newest(rows: list[dict[str, Any]], key: tuple[str, ...]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The readers' rule in plain Python: greatest version; a value that it lacks from the newest row that has it."""
    held: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        held.setdefault(tuple(row[name] for name in key), []).append(row)
    found = {}
    for name, versions in held.items():
        last = max(versions, key=lambda row: row["__version"])
        if last["__deleted"]:
            continue
        found[name] = {column: _value(column, versions) for column in last if not column.startswith("__")}
    return found


def _value(column: str, versions: list[dict[str, Any]]) -> Any:
    having = [row for row in versions if column not in (row["__unavailable"] or [])]
    if not having:
        return None

    def of(row: dict[str, Any]) -> str:
        return str((row["__known"] or {}).get(column, row["__version"]))

    return max(having, key=of)[column]
