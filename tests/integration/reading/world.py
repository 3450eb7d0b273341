"""A small world for reading tests: events go into a real mirror and a local Delta lake, without Kafka and Spark."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import orjson
import pyarrow as pa
from deltalake import write_deltalake
from pymongo.database import Database
from tests.support.api import Api, bearer

from lily_common.envelope import accept, parse_time
from lily_common.state import event_registers
from lily_spark.mirror.changes import Message
from lily_spark.mirror.chunk import mirror_chunk
from lily_spark.mirror.settings import MirrorConfig

START = datetime(2026, 1, 1, tzinfo=UTC)
_TIME = pa.timestamp("us", tz="UTC")
_TEXT = pa.string()
_BRONZE = pa.schema(
    [(name, _TEXT) for name in ("tenant", "id", "source", "type", "subject", "lane", "version", "event")]
    + [("date", pa.date32()), ("time", _TIME), ("accepted_time", _TIME)]
)
_SILVER = pa.schema(
    [(name, _TEXT) for name in ("tenant", "subject", "register", "type", "version", "data", "layer")]
    + [("bucket", pa.int32()), ("accepted_time", _TIME)]
)


@dataclass
class World:
    """One tenant's world. Events are numbered; each is accepted a minute after the one before."""

    api: Api
    tenant: str
    headers: dict[str, str]
    mirror: Database[dict[str, Any]]
    config: MirrorConfig
    lake: Path
    _numbers: Any = field(default_factory=itertools.count)

    def send(self, *events: tuple[str, dict[str, Any]], at: datetime | None = None) -> list[dict[str, Any]]:
        """Accept these (type, data) and bring them into mirror and lake; returns the envelopes."""
        accepted = []
        for event_type, data in events:
            number = next(self._numbers)
            envelope = {"specversion": "1.0", "id": f"e{number}", "source": "urn:test", "data": data}
            moment = at or START + timedelta(minutes=number)
            accepted.append(accept(self.tenant, envelope | {"type": f"lily.{event_type}"}, moment))
        messages = [
            Message(event.key.decode(), event.value.decode(), f"{event.topic}/0/{event.id}")
            for event in accepted
        ]
        assert mirror_chunk(self.mirror, messages, self.config).unreadable == 0
        envelopes = [orjson.loads(event.value) for event in accepted]
        self._append(
            "bronze/events", _BRONZE, [self._bronze(event) for event in envelopes], ["date", "tenant"]
        )
        rows = [row for event in envelopes for row in self._silver(event)]
        self._append("silver/assets", _SILVER, rows, ["layer", "bucket"])
        return envelopes

    def _append(
        self, table: str, schema: pa.Schema, rows: list[dict[str, Any]], partitions: list[str]
    ) -> None:
        if rows:
            data = pa.Table.from_pylist(rows, schema=schema)
            write_deltalake(str(self.lake / table), data, mode="append", partition_by=partitions)

    def _bronze(self, event: dict[str, Any]) -> dict[str, Any]:
        accepted = parse_time(event["acceptedtime"])
        names = ("id", "source", "type", "subject", "lane")
        return {name: event[name] for name in names} | {
            "tenant": event["tenantid"],
            "version": event["stateversion"],
            "event": orjson.dumps(event).decode(),
            "date": accepted.date(),
            "time": parse_time(event["time"]),
            "accepted_time": accepted,
        }

    def _silver(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "tenant": event["tenantid"],
                "subject": event["subject"],
                "register": key,
                "type": register.type,
                "version": register.version,
                "data": orjson.dumps(register.data).decode(),
                "layer": "updates",
                "bucket": -1,
                "accepted_time": parse_time(event["acceptedtime"]),
            }
            for key, register in event_registers(event).items()
        ]

    async def get(self, path: str, **params: Any) -> httpx.Response:
        return await self.api.client.get(path, params=params, headers=self.headers)

    async def asset(self, name: str, part: str = "", **params: Any) -> httpx.Response:
        """The asset (or its `part`) by its percent-encoded name."""
        return await self.get(f"/v1/assets/{quote(name, safe='')}{part}", **params)


async def new_world(api: Api, config: MirrorConfig, mirror: Database[dict[str, Any]], lake: Path) -> World:
    tenant = await api.tenant()
    key = await api.key(tenant, "assets:read", "commands:read", "commands:write", "stream:read")
    return World(api, tenant, bearer(key["key"]), mirror, config, lake)


def table(qualified_name: str, /, **more: Any) -> tuple[str, dict[str, Any]]:
    return "asset.upserted", {"qualified_name": qualified_name, "asset_type": "table", **more}


def column(qualified_name: str, /, **more: Any) -> tuple[str, dict[str, Any]]:
    return "asset.upserted", {"qualified_name": qualified_name, "asset_type": "column", **more}


def attached(name: str, tag: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "classification.attached", {"qualified_name": name, "tag": tag, **more}


def deleted(name: str) -> tuple[str, dict[str, Any]]:
    return "asset.deleted", {"qualified_name": name}


def edge(upstream: str, downstream: str, kind: str = "table", **more: Any) -> tuple[str, dict[str, Any]]:
    return "lineage.edge.added", {"upstream": upstream, "downstream": downstream, "kind": kind, **more}


def incident(name: str, number: str, state: str = "opened", **more: Any) -> tuple[str, dict[str, Any]]:
    data = {"qualified_name": name, "incident_id": number, "title": f"incident {number}", **more}
    return f"incident.{state}", data
