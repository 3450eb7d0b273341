"""The managed subscription that every tenant has: all notices to its own topic `lily.<tenant>.events`."""

from __future__ import annotations

from typing import Any

from lily_connectors.egress.digests import digest
from lily_connectors.egress.sealing import NOTHING_SEALED
from lily_connectors.sinks.kafka import KafkaConfig


def managed_id(tenant: str) -> str:
    """Follows from the tenant, so that making it twice makes it once."""
    return f"sub_{digest('managed', tenant).hex[:24]}"


def managed_row(tenant: str) -> dict[str, Any]:
    """The columns of the managed subscription; all others have their defaults."""
    return {
        "id": managed_id(tenant),
        "tenant": tenant,
        "name": "events topic",
        "kind": KafkaConfig().kind,
        "managed": True,
        "config": KafkaConfig().model_dump(mode="json"),
        "sealed": NOTHING_SEALED,
    }
