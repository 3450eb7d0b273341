"""Standard Webhooks (standardwebhooks.com): signature over id, timestamp and body, at most five minutes old.

The body is a CloudEvent, a list of them, or the specification's own form `{"type", "timestamp", "data"}` whose type is one
of Lily's; the last takes its event id from `webhook-id`, which is the same when the sender tries again.
"""

from __future__ import annotations

import base64
import secrets as random
from collections.abc import Sequence
from typing import Any, Final

from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from lily_common.errors import UnauthenticatedError
from lily_common.events import EVENT_TYPES
from lily_connectors.inbound import Event, Handler, InboundRequest, wrong

SECRET_HEADERS: Final = frozenset({"webhook-signature"})


def new_secret() -> str:
    """`whsec_` and the base64 of 32 random bytes."""
    return "whsec_" + base64.b64encode(random.token_bytes(32)).decode()


def verify(request: InboundRequest, secrets: Sequence[str]) -> None:
    """Raises UnauthenticatedError (401) for a missing, wrong or stale signature."""
    if not request.headers.get("webhook-signature"):
        raise UnauthenticatedError("the header webhook-signature is missing", code="signature-missing")
    reason = "no secret is valid"
    for secret in secrets:
        try:
            Webhook(secret).verify(request.body, dict(request.headers), json_parse=False)
            return
        except WebhookVerificationError as refused:
            reason = str(refused)
        except (ValueError, RuntimeError):  # the package's answer to odd tokens, bodies that are no UTF-8, …
            reason = "malformed signature headers or body"
    stale = "timestamp too" in reason
    raise UnauthenticatedError(reason, code="timestamp-stale" if stale else "signature-invalid")


def event_type(payload: Any, _request: InboundRequest) -> str:
    """`cloudevent`, `cloudevents` or `message`; else the unsupported type as it came."""
    if isinstance(payload, list):
        return "cloudevents"
    if not isinstance(payload, dict):
        raise wrong("", "the body must be a JSON object or a list of them")
    if "specversion" in payload:
        return "cloudevent"
    stated = payload.get("type")
    return "message" if stated in EVENT_TYPES else str(stated)


def _sourced(event: dict[str, Any], request: InboundRequest) -> Event:
    """A sender's events are its own: their source is the connector, theirs is kept as a part of it."""
    stated = event.get("source")
    suffix = f"#{stated}" if isinstance(stated, str) and stated else ""
    return {**event, "source": f"{request.source}{suffix}"}


def cloudevent(payload: Any, request: InboundRequest) -> list[Event]:
    return [_sourced(payload, request)]


def cloudevents(payload: Any, request: InboundRequest) -> list[Event]:
    for index, item in enumerate(payload):
        if not isinstance(item, dict):
            raise wrong(str(index), "must be a CloudEvent as a JSON object")
    return [_sourced(item, request) for item in payload]


def message(payload: Any, request: InboundRequest) -> list[Event]:
    return [
        {
            "specversion": "1.0",
            "id": request.headers["webhook-id"],
            "source": request.source,
            "type": payload["type"],
            "time": payload.get("timestamp"),
            "data": payload.get("data"),
        }
    ]


HANDLERS: dict[str, Handler] = {
    "cloudevent": cloudevent,
    "cloudevents": cloudevents,
    "message": message,
}
