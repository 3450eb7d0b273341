"""What Connect is told of every source, whatever the database: the form of messages, their topics, limits on memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from lily_connectors.debezium import names

#: Partitions of a table's topic. Changes of one key stay in order within one.
PARTITIONS = 4
RETENTION_MS = 7 * 24 * 3600 * 1000
_HEARTBEAT_MS = 10_000
_QUEUE_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Capture:
    """Whose source it is and how it is reached.

    `address` is what Connect connects to (an address that was checked, or the host's name where TLS proves it),
    `password` a reference that Connect resolves (`${…}`), never the password; None where there is none.
    """

    tenant: str
    connector_id: str
    address: str
    password: str | None


class CaptureModule(Protocol):
    """The `capture.py` of a kind; `config` is an instance of its own `Config`."""

    def proves_name(self, config: Any) -> bool: ...

    def connect_settings(self, config: Any, capture: Capture) -> dict[str, str]: ...


def common(tenant: str, source: str) -> dict[str, str]:
    """Settings of every Debezium connector of Lily's."""
    heartbeats = f"{re.escape(names.HEARTBEAT_PREFIX)}\\..*"
    return {
        "tasks.max": "1",
        "topic.prefix": names.topic_prefix(tenant, source),
        "topic.heartbeat.prefix": names.HEARTBEAT_PREFIX,
        "heartbeat.interval.ms": str(_HEARTBEAT_MS),
        **_json("key.converter"),
        **_json("value.converter"),
        "tombstones.on.delete": "true",
        # Debezium leaves out TRUNCATE unless told otherwise: the lake would keep rows that are gone.
        "skipped.operations": "none",
        "max.queue.size.in.bytes": str(_QUEUE_BYTES),
        # What fails for good is told, and restarted by Lily; Debezium alone would call itself running for ever.
        "errors.max.retries": "4",
        "retriable.restart.connector.wait.ms": "3000",
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.default.partitions": str(PARTITIONS),
        "topic.creation.default.cleanup.policy": "delete",
        "topic.creation.default.retention.ms": str(RETENTION_MS),
        "topic.creation.groups": "heartbeat",
        "topic.creation.heartbeat.include": heartbeats,
        "topic.creation.heartbeat.partitions": "1",
        "topic.creation.heartbeat.retention.ms": "3600000",
    }


def include_list(tables: Iterable[str]) -> str:
    """Debezium's list of regular expressions; each matches a whole name, whatever its case."""
    return ",".join(_pattern(table) for table in sorted(set(tables)))


def _pattern(table: str) -> str:
    head, _, tail = table.partition(".")
    return f"{head}\\.{'.*' if tail == '*' else tail}"


def _json(converter: str) -> dict[str, str]:
    return {
        converter: "org.apache.kafka.connect.json.JsonConverter",
        f"{converter}.schemas.enable": "true",
    }
