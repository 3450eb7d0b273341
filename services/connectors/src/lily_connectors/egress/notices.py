"""Reading a message of `lily.notices`: an accepted event as fan-out forwards it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from lily_common.envelope import parse_time
from lily_common.state import register_keys
from lily_connectors.egress.digests import asset_key, identity_key


class UnreadableNoticeError(ValueError):
    """The message is not an accepted event; it goes to the dead-letter topic."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One event to judge. `register` is the key of the state register that it writes (`lily_common.state`).

    Times: `accepted_at` by the API (None: long ago, as of a replay), `noticed_at` by Kafka when fan-out wrote it, `consumed_at` when it was read here.
    """

    tenant: str
    source: str
    id: str
    type: str
    subject: str
    version: str
    register: str
    event: dict[str, Any]
    body: bytes
    asset: UUID
    identity: UUID
    accepted_at: datetime | None
    noticed_at: datetime | None
    consumed_at: datetime

    @property
    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = self.event["data"]
        return data


def read(value: bytes | None, timestamp_ms: int | None, consumed_at: datetime) -> Notice:
    """The notice in a Kafka message. Raises UnreadableNoticeError saying what is wrong."""
    try:
        event = orjson.loads(value or b"")
        tenant, source, event_id = event["tenantid"], event["source"], event["id"]
        (register,) = register_keys(
            event["type"], source, event["data"]
        )  # one for each type that fan-out carries
        return Notice(
            tenant=tenant,
            source=source,
            id=event_id,
            type=event["type"],
            subject=event["subject"],
            version=event["stateversion"],
            register=register,
            event=event,
            body=(value or b"").strip(),
            asset=asset_key(tenant, event["subject"]),
            identity=identity_key(tenant, source, event_id),
            accepted_at=parse_time(event["acceptedtime"]),
            noticed_at=datetime.fromtimestamp(timestamp_ms / 1000, UTC) if timestamp_ms else None,
            consumed_at=consumed_at,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise UnreadableNoticeError(f"{type(wrong).__name__}: {wrong}") from None
