"""bronze.events on a local disk, written by the lake's own appender."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pyarrow as pa

from lily_common.envelope import accept
from lily_spark.config import SparkSettings
from lily_spark.sinks.delta import Appender
from lily_spark.tables import COMMITS, EVENTS

START = datetime(2026, 1, 1, 23, 0, tzinfo=UTC)


class Bronze:
    """Commits of events, a minute of acceptance apart; every event goes on Kafka as its commit's next."""

    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        self.sent: list[dict[str, Any]] = []
        self._appender = Appender(EVENTS, settings)
        self._commit = 0
        self._offset = 0

    def commit(self, *events: tuple[str, str, str]) -> int:
        """Append (tenant, asset, id) as one commit; returns its number."""
        self._commit += 1
        rows = []
        moment = START + timedelta(minutes=self._commit)
        for tenant, asset, event_id in events:
            data = {"qualified_name": asset, "tag": "PII"}
            envelope = {"specversion": "1.0", "id": event_id, "source": "s", "data": data}
            kind = "lily.classification." + ("attached" if len(rows) % 2 else "detached")
            value = orjson.loads(accept(tenant, envelope | {"type": kind}, moment).value)
            rows.append(self._row(value, moment))
            self.sent.append(value | {"commit": self._commit})
        # A micro-batch is in no order of its own.
        table = pa.Table.from_pylist(rows[::-1], schema=EVENTS.schema)
        self._appender.append(table, (COMMITS, self._commit))
        return self._commit

    def _row(self, value: dict[str, Any], moment: datetime) -> dict[str, Any]:
        self._offset += 1
        return {
            "tenant": value["tenantid"],
            "date": moment.date(),
            "id": value["id"],
            "source": value["source"],
            "type": value["type"],
            "subject": value["subject"],
            "time": moment,
            "accepted_time": moment,
            "lane": value["lane"],
            "version": value["stateversion"],
            "event": orjson.dumps(value).decode(),
            "topic": "lily.changes.priority",
            "partition": 0,
            "offset": self._offset,
            "kafka_time": moment,
            "commit": self._commit,
        }
