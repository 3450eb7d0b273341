"""A connector's secrets: one sealed JSON document per connector, several secrets at once while one is rotated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lily_common.crypto import SecretBox

PURPOSE = "connector"


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret and until when it is good; None is for ever. Its repr does not show it."""

    value: str
    expires: datetime | None = None

    def __repr__(self) -> str:
        return f"Secret(expires={self.expires!r})"


def seal(box: SecretBox, tenant: str, connector_id: str, secrets: Sequence[Secret]) -> str:
    """The sealed document; it opens only for this tenant and connector."""
    document = [
        {"value": secret.value, "expires": secret.expires.isoformat() if secret.expires else None}
        for secret in secrets
    ]
    return box.seal(json.dumps(document), tenant=tenant, purpose=f"{PURPOSE}:{connector_id}")


def open_sealed(box: SecretBox, tenant: str, connector_id: str, sealed: str | None) -> list[Secret]:
    """The secrets, expired ones too. Raises ValueError when the text was sealed for another row."""
    if sealed is None:
        return []
    document = json.loads(box.open(sealed, tenant=tenant, purpose=f"{PURPOSE}:{connector_id}"))
    return [
        Secret(item["value"], datetime.fromisoformat(item["expires"]) if item["expires"] else None)
        for item in document
    ]


def valid(secrets: Sequence[Secret], now: datetime) -> list[str]:
    """The values that are good at `now`, newest first."""
    return [secret.value for secret in secrets if secret.expires is None or secret.expires > now]


def rotated(secrets: Sequence[Secret], new: str, now: datetime, overlap: timedelta) -> list[Secret]:
    """The new secret first; those good until now stay good for `overlap`, but no longer than they had."""
    until = now + overlap
    kept = [
        Secret(secret.value, until if secret.expires is None else min(secret.expires, until))
        for secret in secrets
        if secret.expires is None or secret.expires > now
    ]
    return [Secret(new), *kept] if overlap > timedelta(0) else [Secret(new)]
