"""Accepted events put on `lily.changes.*` as the API would, and what the lake must hold after them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from confluent_kafka import Producer

from lily_common.envelope import AcceptedEvent, accept
from lily_common.kafka import producer_config
from lily_common.state import Registers, event_registers, merge

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Sent:
    """What was acknowledged: the first envelope of each identity, and the state that all of them make."""

    first: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    repeats: int = 0

    def add(self, event: AcceptedEvent) -> None:
        if (event.source, event.id) in self.first:
            self.repeats += 1
        else:
            self.first[event.source, event.id] = orjson.loads(event.value)

    def state(self) -> dict[str, Registers]:
        """Asset -> registers."""
        made: dict[str, Registers] = {}
        for envelope in self.first.values():
            subject = envelope["subject"]
            made[subject] = merge(made.get(subject, {}), event_registers(envelope))
        return made


class Changes:
    """Sends events of one tenant and keeps the account."""

    def __init__(self, bootstrap: str, tenant: str) -> None:
        self.tenant = tenant
        self.sent = Sent()
        self._producer = Producer(producer_config(bootstrap))

    def send(self, *events: dict[str, Any]) -> None:
        """Accept and produce; return when all are acknowledged."""
        accepted = [accept(self.tenant, event, datetime.now(UTC)) for event in events]
        for event in accepted:
            self._producer.produce(event.topic, event.value, event.key)
        assert self._producer.flush(30) == 0
        for event in accepted:
            self.sent.add(event)

    def send_raw(self, topic: str, value: bytes | None, key: bytes | None = None) -> None:
        self._producer.produce(topic, value, key)
        assert self._producer.flush(30) == 0


def tag(event_id: str, asset: str, name: str, *, attached: bool = True, minute: int = 0) -> dict[str, Any]:
    kind = "attached" if attached else "detached"
    return _event(event_id, f"lily.classification.{kind}", {"qualified_name": asset, "tag": name}, minute)


def upsert(
    event_id: str, asset: str, description: str, *, kind: str = "table", minute: int = 0
) -> dict[str, Any]:
    data = {"qualified_name": asset, "asset_type": kind, "name": asset, "description": description}
    return _event(event_id, "lily.asset.upserted", data, minute)


def patch(event_id: str, asset: str, changes: dict[str, Any], *, minute: int = 0) -> dict[str, Any]:
    return _event(event_id, "lily.asset.patched", {"qualified_name": asset, "set": changes}, minute)


def mixture(seed: int, count: int, assets: int) -> Iterable[dict[str, Any]]:
    """`count` events on `assets` assets, in no order of time, in both lanes, every tenth of them sent twice."""
    chance = random.Random(seed)
    for number in range(count):
        asset = f"postgres://db/shop/public/t{chance.randrange(assets)}"
        minute = chance.randrange(10_000)
        event_id = f"{seed}-{number}"
        made = chance.choice(
            [
                tag(
                    event_id,
                    asset,
                    chance.choice(["PII", "GDPR"]),
                    attached=chance.random() < 0.6,
                    minute=minute,
                ),
                upsert(event_id, asset, f"d{number}", minute=minute),
                upsert(event_id, asset + "/c", f"c{number}", kind="column", minute=minute),
                patch(
                    event_id, asset, {"description": f"p{number}", "owners": [f"o{number}"]}, minute=minute
                ),
                _event(event_id, "lily.asset.deleted", {"qualified_name": asset}, minute),
            ]
        )
        yield made
        if number % 10 == 0:
            yield made


def _event(event_id: str, kind: str, data: dict[str, Any], minute: int) -> dict[str, Any]:
    time = (START + timedelta(minutes=minute)).isoformat()
    return {"specversion": "1.0", "id": event_id, "source": "test", "type": kind, "time": time, "data": data}
