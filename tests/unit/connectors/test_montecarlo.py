"""Monte Carlo's signature and names."""

from __future__ import annotations

import hashlib
import hmac
import json
import urllib.parse
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lily_common.errors import UnauthenticatedError
from lily_connectors.inbound import InboundRequest
from lily_connectors.vendors.montecarlo import inbound
from lily_connectors.vendors.montecarlo.config import Config

CONFIG = Config(namespace="postgres://shop-db:5432")
BODY = json.dumps(
    {"action": "incident", "payload": {"é": [1, 2.50, None]}, "type": "a b&c", "version": "v0.1"}
).encode()


def request(body: bytes, signature: str | None, config: Config = CONFIG) -> InboundRequest:
    headers = {} if signature is None else {"x-mcd-signature": signature}
    return InboundRequest("con_1", config, headers, body, datetime.now(UTC))


def documented(secret: str, body: bytes) -> str:
    """As Monte Carlo's documentation shows it."""
    encoded = urllib.parse.urlencode(json.loads(body)).encode("utf8")
    return hmac.new(secret.encode(), encoded, hashlib.sha512).hexdigest()


def test_documented_signature_is_good() -> None:
    inbound.verify(request(BODY, documented("s3cret", BODY)), ["other", "s3cret"])


def test_signature_over_the_bytes_is_good_too() -> None:
    signature = hmac.new(b"s3cret", BODY, hashlib.sha512).hexdigest()
    inbound.verify(request(BODY, signature.upper()), ["s3cret"])


@pytest.mark.parametrize("signature", [None, "", "é", "0" * 128, documented("wrong", BODY)])
def test_any_other_signature_is_not(signature: str | None) -> None:
    with pytest.raises(UnauthenticatedError):
        inbound.verify(request(BODY, signature), ["s3cret"])


def test_signature_of_another_body_is_not_good() -> None:
    with pytest.raises(UnauthenticatedError):
        inbound.verify(request(BODY.replace(b"v0.1", b"v0.2"), documented("s3cret", BODY)), ["s3cret"])


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: json.dumps({text: text}).encode()))
def test_any_body_is_verified_without_another_error(body: bytes) -> None:
    with pytest.raises(UnauthenticatedError):
        inbound.verify(request(body, "ab" * 64), ["s3cret"])


@pytest.mark.parametrize(
    ("config", "group", "table", "expected"),
    [
        (CONFIG, "shop:public", "customers", "postgres://shop-db:5432/shop/public/customers"),
        (CONFIG, None, "shop:public.customers", "postgres://shop-db:5432/shop/public/customers"),
        (
            Config(namespace="mysql://db:3306", name_template="{dataset}.{table}"),
            "def:shop",
            "orders",
            "mysql://db:3306/shop/orders",
        ),
        (
            Config(namespace="snowflake://acme-prod", letter_case="upper"),
            "analytics:marts",
            "orders",
            "snowflake://acme-prod/ANALYTICS/MARTS/ORDERS",
        ),
        (Config(namespace="bigquery"), "proj:sales", "orders", "bigquery:///proj/sales/orders"),
    ],
)
def test_the_table_gets_its_qualified_name(
    config: Config, group: str | None, table: str, expected: str
) -> None:
    payload = {
        "action": "incident",
        "payload": {"incident_id": "i1", "group_id": group, "event_list": [{"table_name": table}]},
    }
    (event,) = inbound.opened(payload, request(b"{}", None, config))
    assert event["data"]["qualified_name"] == expected


@pytest.mark.parametrize(
    "template", ["{project}", "{table.__class__}", "{table!r}", "{0}.{table}", "{table:>9}", "{"]
)
def test_a_name_template_names_only_the_parts(template: str) -> None:
    with pytest.raises(ValidationError):
        Config(namespace="bigquery", name_template=template)
