"""A subscription's secrets at rest: its whole configuration and its signing secrets, as one sealed JSON document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from lily_common.crypto import SecretBox
from lily_connectors.contract import SinkConfig
from lily_connectors.secrets import Secret
from lily_connectors.sinks.catalogue import revealed

#: In the place of a sealed document: there is no secret, and no configuration but the defaults.
NOTHING_SEALED = ""


def _purpose(subscription_id: str) -> str:
    return f"subscription:{subscription_id}"


def seal(
    box: SecretBox, tenant: str, subscription_id: str, config: SinkConfig, signing: Sequence[Secret] = ()
) -> str:
    """The sealed document; it opens only for this tenant and subscription."""
    document = {
        "config": revealed(config),
        "signing": [
            {"value": secret.value, "expires": secret.expires.isoformat() if secret.expires else None}
            for secret in signing
        ],
    }
    return box.seal(json.dumps(document), tenant=tenant, purpose=_purpose(subscription_id))


def unseal(
    box: SecretBox, tenant: str, subscription_id: str, sealed: str
) -> tuple[dict[str, Any], list[Secret]]:
    """(configuration, signing secrets newest first). Raises ValueError when it was sealed for another row."""
    if sealed == NOTHING_SEALED:
        return {}, []
    document = json.loads(box.open(sealed, tenant=tenant, purpose=_purpose(subscription_id)))
    signing = [
        Secret(item["value"], datetime.fromisoformat(item["expires"]) if item["expires"] else None)
        for item in document["signing"]
    ]
    return document["config"], signing
