"""The hash chain: what is hashed, and how a broken link is found. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

GENESIS = "0" * 64


class Link(Protocol):
    """The columns that a link is made of."""

    tenant: Any
    seq: Any
    at: Any
    actor: Any
    action: Any
    target: Any
    request_id: Any
    outcome: Any
    detail: Any
    previous_hash: Any
    hash: Any


def plain(detail: Mapping[str, Any] | None) -> dict[str, Any]:
    """`detail` as JSON gives it back, so that what is hashed is what is stored; other types become their text."""
    copied: dict[str, Any] = json.loads(json.dumps(detail or {}, default=str))
    return copied


def link_hash(link: Link) -> str:
    """SHA-256 over the canonical JSON of the row without its own hash."""
    at: datetime = link.at
    content = [
        link.previous_hash,
        link.tenant,
        link.seq,
        at.astimezone(UTC).isoformat(timespec="microseconds"),
        link.actor,
        link.action,
        link.target,
        link.request_id,
        link.outcome,
        link.detail,
    ]
    canonical = json.dumps(content, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass
class ChainCheck:
    """Walks a chain from its first row. `broken_at` is the first row that does not fit, None when all do."""

    entries: int = 0
    head_hash: str = GENESIS
    broken_at: int | None = None

    def add(self, link: Link) -> None:
        fits = (
            link.seq == self.entries + 1
            and link.previous_hash == self.head_hash
            and link.hash == link_hash(link)
        )
        if not fits and self.broken_at is None:
            self.broken_at = self.entries + 1
        self.entries += 1
        self.head_hash = link.hash
