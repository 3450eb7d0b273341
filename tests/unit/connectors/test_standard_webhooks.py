"""Standard Webhooks, checked with the specification's own package, its odd errors included."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook

from lily_common.errors import UnauthenticatedError
from lily_connectors.inbound import InboundRequest
from lily_connectors.vendors.standard_webhooks import inbound
from lily_connectors.vendors.standard_webhooks.config import Config

SECRET = inbound.new_secret()
BODY = b'{"type": "lily.asset.deleted", "data": {}}'


def signed(body: bytes = BODY, *, secret: str = SECRET, age: timedelta = timedelta(0)) -> dict[str, str]:
    moment = datetime.now(UTC) - age
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": Webhook(secret).sign("msg_1", moment, body.decode()),
    }


def verify(headers: dict[str, str], *secrets: str, body: bytes = BODY) -> None:
    inbound.verify(InboundRequest("con_1", Config(), headers, body, datetime.now(UTC)), secrets or [SECRET])


def test_good_signature() -> None:
    verify(signed())


def test_both_secrets_are_good_during_a_rotation() -> None:
    verify(signed(), inbound.new_secret(), SECRET)


@pytest.mark.parametrize("minutes", [-6, 6])
def test_stale_and_future_timestamps(minutes: int) -> None:
    with pytest.raises(UnauthenticatedError) as refused:
        verify(signed(age=timedelta(minutes=minutes)))
    assert refused.value.code == "timestamp-stale"


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-signature": ""},
        {"webhook-signature": "v1"},
        {"webhook-signature": "v1,a,b"},
        {"webhook-signature": "v1,%%%"},
        {"webhook-signature": "v2,AAAA"},
        {"webhook-timestamp": "nan"},
        {"webhook-timestamp": "1e999"},
        {"webhook-timestamp": "yesterday"},
        {"webhook-id": ""},
        {"webhook-id": "msg_2"},
    ],
)
def test_odd_headers(change: dict[str, str]) -> None:
    with pytest.raises(UnauthenticatedError):
        verify(signed() | change)


def test_a_body_that_is_no_text() -> None:
    with pytest.raises(UnauthenticatedError):
        verify(signed(), body=b"\xff\xfe")


def test_a_changed_body() -> None:
    with pytest.raises(UnauthenticatedError):
        verify(signed(), body=BODY + b" ")
