"""The load of the latency benchmarks: single events at a steady rate, one in twenty a tag, each on an asset of its own.

Of the rest nine in ten are columns, as in a real estate (bulk lane), the others tables.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.journal import Request

SOURCE = "/bench"
TAGS_EVERY = 20
TABLES_EVERY = 10
ATTACHED = "lily.classification.attached"


def event(kind: str, moment: datetime, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": uuid.uuid4().hex,
        "source": SOURCE,
        "type": f"lily.{kind}",
        "time": moment.isoformat(),
        "data": data,
    }


def tag(run: str, number: int, moment: datetime) -> dict[str, Any]:
    name = f"postgres://shop-db:5432/shop/{run}/table_{number}/email"
    data = {"qualified_name": name, "tag": "PII", "origin": "scanner"}
    return event("classification.attached", moment, data)


def upsert(run: str, number: int, moment: datetime, kind: str) -> dict[str, Any]:
    table = f"postgres://shop-db:5432/shop/{run}/table_{number}"
    name = f"{table}/column_{number}" if kind == "column" else table
    data = {
        "qualified_name": name,
        "asset_type": kind,
        "name": name.rsplit("/", 1)[1],
        "description": "one of many, as harvested from the catalogue of the shop",
        "owners": ["data-platform@shop.example"],
        "properties": {"nullable": True, "position": number % 40, "engine": "postgres"},
    }
    if kind == "column":
        data |= {"parent": table, "data_type": "varchar(255)"}
    return event("asset.upserted", moment, data)


def mixed(tenant: str, rate: int, seconds: float, *, bulk: bool = True) -> Iterator[Request]:
    """`rate` events a second for `seconds`; without `bulk` all of them are priority (tables and tags)."""
    run = uuid.uuid4().hex[:8]
    start = datetime.now(UTC)
    for number in range(int(rate * seconds)):
        due = number / rate
        moment = start + timedelta(seconds=due)
        if number % TAGS_EVERY == 0:
            made = tag(run, number, moment)
        else:
            kind = "column" if bulk and number % TABLES_EVERY else "table"
            made = upsert(run, number, moment, kind)
        yield Request(due, tenant, [made])


def backlog(tenant: str, count: int, batch: int) -> Iterator[Request]:
    """`count` column upserts in batches, as fast as the client can."""
    run = uuid.uuid4().hex[:8]
    now = datetime.now(UTC)
    for first in range(0, count, batch):
        events = [upsert(run, number, now, "column") for number in range(first, min(first + batch, count))]
        yield Request(0.0, tenant, events)
