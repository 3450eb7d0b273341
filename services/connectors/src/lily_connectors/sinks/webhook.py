"""The generic webhook: the CloudEvent as it is, signed as Standard Webhooks 1.0 says.

Signature: `v1,` + base64 of HMAC-SHA256 over `<webhook-id>.<webhook-timestamp>.<body>`; one for each secret that is good
now, parted by spaces, so that a receiver can change over during a rotation.
https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, SecretStr, StringConstraints

from lily_connectors.contract import HttpRequest, HttpSink, OutboundNotice, SinkConfig

_PREFIX = "whsec_"
_HEADER_NAME = re.compile(r"^(authorization|x-[a-z0-9][a-z0-9-]{0,62})$")
#: X-headers that proxies and load balancers act on.
_RESERVED = re.compile(r"^x-(forwarded|real-ip|original|rewrite|http-method|amz|envoy|sendfile|accel)")


def _headers(headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name, value in headers.items():
        if not _HEADER_NAME.match(name.lower()) or _RESERVED.match(name.lower()):
            raise ValueError(f"header '{name[:64]}': only Authorization and own X-… headers can be set")
        text = value.get_secret_value()
        if not text.isprintable() or not text.isascii() or len(text) > 4096:
            raise ValueError(
                f"header '{name[:64]}': the value must be printable ASCII of at most 4096 characters"
            )
    return headers


class WebhookConfig(SinkConfig):
    """Where to post, and what to send along."""

    kind: Literal["webhook"] = "webhook"
    url: Annotated[str, StringConstraints(min_length=8, max_length=2048)] = Field(
        description="An https URL; the event is sent there as a POST",
        examples=["https://hooks.example.com/lily"],
    )
    headers: Annotated[dict[str, SecretStr], AfterValidator(_headers)] = Field(
        default_factory=dict,
        max_length=16,
        description="Authorization and own X-… headers; the values are kept encrypted and not shown again",
    )

    def urls(self) -> Mapping[str, str]:
        return {"url": self.url}


def new_secret() -> str:
    """A signing secret of 256 random bits in the form `whsec_<base64>`."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def signatures(keys: Sequence[str], message_id: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature` for these secrets."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    marks = (
        hmac.digest(base64.b64decode(key.removeprefix(_PREFIX) + "=="), signed, "sha256") for key in keys
    )
    return " ".join("v1," + base64.b64encode(mark).decode() for mark in marks)


class WebhookSink(HttpSink[WebhookConfig]):
    kind: ClassVar[str] = "webhook"
    config_model = WebhookConfig
    signed = True

    def render(self, notice: OutboundNotice, now: datetime) -> HttpRequest:
        timestamp = int(now.timestamp())
        own = {name: value.get_secret_value() for name, value in self.config.headers.items()}
        headers = own | {
            "Content-Type": "application/cloudevents+json; charset=utf-8",
            "webhook-id": notice.delivery_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signatures(self.signing, notice.delivery_id, timestamp, notice.body),
        }
        return HttpRequest(self.config.url, headers, notice.body)
