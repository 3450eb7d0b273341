"""What cannot be taken: its messages to `lily.dlq.cdc`, a count, and an incident on the table's asset until rows flow again."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaException, Producer

from lily_common.envelope import accept
from lily_common.events import DLQ_CDC_TOPIC, INCIDENT_OPENED, INCIDENT_RESOLVED
from lily_common.kafka import producer_config
from lily_common.logs import get_logger
from lily_common.metrics import STREAM_DLQ
from lily_spark.cdc.topics import Capture
from lily_spark.config import SparkSettings
from lily_spark.sinks.delta import Appender
from lily_spark.tables import COMMON_PROPERTIES, Table, open_table

log = get_logger(__name__)
QUERY = "cdc"
_TEXT, _TIME = pa.string(), pa.timestamp("us", "UTC")

#: Each opening and closing of a table's incident: the newest row of a topic says whether it is open.
REFUSALS = Table(
    "lily/cdc_refusals",
    pa.schema(
        {"tenant": _TEXT, "topic": _TEXT, "asset": _TEXT, "open": pa.bool_(), "reason": _TEXT, "time": _TIME}
    ),
    (),
    ("topic", "time"),
    COMMON_PROPERTIES,
)


@dataclass(frozen=True)
class Letter:
    """A message as it was, and why it could not be taken."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    reason: str


@dataclass(frozen=True)
class Alert:
    """A table of which something was refused; `place` names the message that made it so."""

    capture: Capture
    asset: str
    reason: str
    place: str


class Refusals:
    """Sends dead letters and incidents; at least once, as a batch that is repeated sends them again under the same ids."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._producer: Producer | None = None
        self._appender = Appender(REFUSALS, settings)
        self._open: dict[str, str] | None = None
        self._lock = threading.Lock()

    def bury(self, letters: Iterable[Letter]) -> None:
        """Return when Kafka has acknowledged every letter; raises KafkaException when it has not."""
        counts: Counter[tuple[str, str]] = Counter()
        records = []
        for letter in letters:
            counts[letter.topic, letter.reason] += 1
            place = f"{letter.topic}/{letter.partition}/{letter.offset}"
            headers = [
                ("reason", letter.reason.encode()),
                ("position", place.encode()),
                ("table", Capture.of_topic(letter.topic).path.encode()),
            ]
            records.append((DLQ_CDC_TOPIC, letter.value, letter.key, headers))
        self._send(records)
        for (topic, reason), count in counts.items():
            STREAM_DLQ.labels(QUERY, reason).inc(count)
            log.warning("change data refused", topic=topic, reason=reason, messages=count)

    def open(self, alerts: Iterable[Alert]) -> None:
        """Open an incident for each table that has none."""
        held = self._held()
        for alert in alerts:
            if alert.capture.topic not in held:
                title = f"Rows of {alert.capture.name} are refused: {alert.reason}"
                data = {"title": title[:500], "severity": "high", "status": "open"}
                self._tell(alert, INCIDENT_OPENED, data)
                held[alert.capture.topic] = alert.asset

    def resolve(self, alerts: Iterable[Alert]) -> None:
        """Resolve the incidents of these tables, where one is open. Their assets are as when it was opened."""
        held = self._held()
        for alert in alerts:
            asset = held.get(alert.capture.topic)
            if asset is not None:
                self._tell(
                    Alert(alert.capture, asset, alert.reason, alert.place),
                    INCIDENT_RESOLVED,
                    {"status": "resolved"},
                )
                del held[alert.capture.topic]

    def lost(self, alerts: Iterable[Alert]) -> None:
        """Open an incident for each place where messages are missing. Nothing here resolves it: the table needs a snapshot."""
        for alert in alerts:
            data = {
                "title": f"Rows of {alert.capture.name} are missing: {alert.reason}"[:500],
                "severity": "high",
            }
            self._event(alert, INCIDENT_OPENED, data, f"/lost/{alert.place}", datetime.now(UTC))

    def _tell(self, alert: Alert, kind: str, data: dict[str, Any]) -> None:
        """Kafka first, then the note that it was told: a crash between the two tells it again, under the same id."""
        now = datetime.now(UTC)
        self._event(alert, kind, data, "", now)
        row = {
            "tenant": alert.capture.tenant,
            "topic": alert.capture.topic,
            "asset": alert.asset,
            "open": kind == INCIDENT_OPENED,
            "reason": alert.reason,
            "time": now,
        }
        self._appender.append(pa.Table.from_pylist([row], schema=REFUSALS.schema))
        log.warning(kind, topic=alert.capture.topic, asset=alert.asset, reason=alert.reason)

    def _event(self, alert: Alert, kind: str, data: dict[str, Any], what: str, now: datetime) -> None:
        event = {
            "specversion": "1.0",
            "id": f"{kind}{what}/{alert.place}",
            "source": f"lily/cdc/{alert.capture.source}",
            "type": kind,
            "data": {
                "qualified_name": alert.asset,
                "incident_id": f"cdc/{alert.capture.source}/{alert.capture.name}{what}",
            }
            | data,
        }
        accepted = accept(alert.capture.tenant, event, now)
        self._send([(accepted.topic, accepted.value, accepted.key, [])])

    def _held(self) -> dict[str, str]:
        """Topic -> asset of each open incident; read from the table once."""
        with self._lock:
            if self._open is None:
                rows = open_table(REFUSALS, self._settings).to_pyarrow_table().sort_by("time").to_pylist()
                newest = {row["topic"]: row for row in rows}
                self._open = {topic: row["asset"] for topic, row in newest.items() if row["open"]}
            return self._open

    def _send(self, records: list[tuple[str, bytes | None, bytes | None, list[tuple[str, bytes]]]]) -> None:
        if not records:
            return
        if self._producer is None:
            self._producer = Producer(
                producer_config(self._settings.kafka_bootstrap, **{"message.max.bytes": 10_485_760})
            )
        failures: list[str] = []
        for topic, value, key, headers in records:
            self._producer.produce(
                topic,
                value,
                key,
                headers=headers,  # type: ignore[arg-type]
                on_delivery=lambda error, _: failures.append(error.str()) if error is not None else None,
            )
            self._producer.poll(0)
        left = self._producer.flush(30)
        if left or failures:
            raise KafkaException(f"refused change data not acknowledged: {failures[:1] or left}")
