"""How refreshes went: on `lily.table-refreshes`, for the API to show, and as metrics."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
from confluent_kafka import Producer

from lily_common.events import TABLE_REFRESHES_TOPIC
from lily_common.kafka import producer_config
from lily_common.metrics import TABLE_DRIFT, TABLE_REFRESH_ROWS, TABLE_REFRESH_SECONDS, TABLE_REFRESHES

_SHOWN = 20


class Telling:
    """Tells without waiting: the next refresh tells again."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(producer_config(bootstrap))

    def succeeded(self, tenant: str, table: str, path: str, done: dict[str, Any]) -> None:
        mode = str(done["mode"])
        TABLE_REFRESHES.labels(path, mode, "succeeded").inc()
        TABLE_REFRESH_SECONDS.labels(path, mode).observe(float(done["seconds"]))
        for operation in ("upserted", "removed"):
            TABLE_REFRESH_ROWS.labels(path, operation).inc(int(done.get(operation, 0)))
        TABLE_DRIFT.labels(path).inc(int(done.get("drift", 0)))
        self._tell(tenant, table, "succeeded", done | {"examples": done.get("examples", [])[:_SHOWN]})

    def failed(self, tenant: str, table: str, path: str, why: Exception) -> None:
        TABLE_REFRESHES.labels(path, "unknown", "failed").inc()
        self._tell(tenant, table, "failed", {"error": f"{type(why).__name__}: {str(why)[:1000]}"})

    def close(self) -> None:
        self._producer.flush(5)

    def _tell(self, tenant: str, table: str, status: str, detail: dict[str, Any]) -> None:
        message = {
            "tenant": tenant,
            "table": table,
            "status": status,
            "at": datetime.now(UTC).isoformat(),
            "detail": detail,
        }
        key = f"{tenant}|{table}".encode()
        self._producer.produce(TABLE_REFRESHES_TOPIC, orjson.dumps(message, default=str), key)
        self._producer.poll(0)
