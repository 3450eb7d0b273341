"""Fixed-size keys for names of any length: an index row of PostgreSQL holds at most 2.7 KB, a qualified name 2 KB."""

from __future__ import annotations

from hashlib import blake2b
from uuid import UUID

_SEPARATOR = "\x00"  # no name, tag, source or id can hold it


def digest(*parts: str) -> UUID:
    """128 bits of BLAKE2b over the parts, as a UUID (16 bytes in PostgreSQL)."""
    text = _SEPARATOR.join(parts).encode("utf-8", "surrogatepass")
    return UUID(bytes=blake2b(text, digest_size=16).digest())


def asset_key(tenant: str, subject: str) -> UUID:
    return digest("asset", tenant, subject)


def folded_key(tenant: str, subject: str) -> UUID:
    """The same for all assets whose names differ by letter case alone: some engines know no other names."""
    return digest("folded", tenant, subject.casefold())


def identity_key(tenant: str, source: str, event_id: str) -> UUID:
    """The event's identity; also the id of its row in `notices`."""
    return digest("event", tenant, source, event_id)


def delivery_key(subscription_id: str, notice_id: UUID) -> UUID:
    """The delivery's id and `webhook-id`: the same whenever the same event is delivered to the same subscription."""
    return digest("delivery", subscription_id, notice_id.hex)


def replay_key(replay_id: str, target: str, identity: UUID) -> UUID:
    """The id of what one replay tells one target of one event: never that of a live delivery or of another replay."""
    return digest("replay", replay_id, target, identity.hex)


def lane_key(subscription_id: str, subject: str) -> UUID:
    """What is delivered in order: one subscription's deliveries about one asset."""
    return digest("lane", subscription_id, subject)


def replay_lane_key(replay_id: str, subscription_id: str, subject: str) -> UUID:
    """As `lane_key`, for one replay: live deliveries neither wait for it nor stand in its way."""
    return digest("replay-lane", replay_id, subscription_id, subject)
