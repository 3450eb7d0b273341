"""The managed subscription that every tenant has: all notices to its own topic `lily.<tenant>.events`."""

from __future__ import annotations

from typing import Any

from lily_common.crypto import SecretBox
from lily_connectors.egress.digests import digest
from lily_connectors.egress.sealing import seal
from lily_connectors.sinks.kafka import KafkaConfig


def managed_id(tenant: str) -> str:
    """Follows from the tenant, so that making it twice makes it once."""
    return f"sub_{digest('managed', tenant).hex[:24]}"


def managed_row(box: SecretBox, tenant: str) -> dict[str, Any]:
    """The columns of the managed subscription; all others have their defaults."""
    subscription_id = managed_id(tenant)
    return {
        "id": subscription_id,
        "tenant": tenant,
        "name": "events topic",
        "kind": KafkaConfig().kind,
        "managed": True,
        "config": KafkaConfig().model_dump(mode="json"),
        "sealed": seal(box, tenant, subscription_id, KafkaConfig()),
    }
