"""A policy with the action notify: whom it is told to, with who, what, why and the link."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from tests.integration.egress.conftest import ControlPlane
from tests.integration.egress.support import Tenant
from tests.support.egress import tag
from tests.support.receiver import ReceiverProcess
from tests.support.stack import Stack

QN = "postgres://shop-db:5432/shop/public/customers/email"
pytestmark = pytest.mark.usefixtures("egress")


@pytest.fixture
def tenant(servers: Stack, control: ControlPlane, receiver: ReceiverProcess) -> Tenant:
    return Tenant(servers, control, receiver)


def declare(tenant: Tenant, name: str, **policy: Any) -> None:
    tenant.call("PUT", f"/v1/policies/{name}", json=policy)


def test_only_what_a_policy_is_about_is_told_from_its_declaration_to_its_end(tenant: Tenant) -> None:
    named = tenant.subscribe("named", filters=[{"policy": "tell-privacy"}])
    tenant.subscribe("any", filters=[{"policy": "*"}])
    everything = tenant.subscribe("everything")
    tenant.notify(tag(QN, "PII_EMAIL"))
    tenant.settled(everything, 1)
    declare(tenant, "tell-privacy", tags=["PII*"], action="notify")
    declare(tenant, "tell-finance", tags=["SOX"], action="notify")
    declare(tenant, "mask-personal", tags=["PII*"], action="mask")
    declare(tenant, "tried-out", tags=["PII*"], action="notify", mode="dry_run")
    tenant.notify(
        tag(QN, "PII_PHONE"), tag(QN, "SOX"), tag(QN, "OTHER"), tag(QN, "PII_EMAIL", attached=False)
    )
    tenant.settled(everything, 5)
    tenant.settled(named, 2)
    tenant.call("DELETE", "/v1/policies/tell-privacy")
    tenant.notify(tag(QN, "PII_PHONE", attached=False), tag(QN, "SOX", attached=False))
    tenant.settled(everything, 7)
    assert tenant.told("named") == [("attached", "PII_PHONE"), ("detached", "PII_EMAIL")]
    assert tenant.told("any") == [
        ("attached", "PII_PHONE"),
        ("attached", "SOX"),
        ("detached", "PII_EMAIL"),
        ("detached", "SOX"),
    ]
    told = [arrival.body.get("tagpolicies") for arrival in tenant.arrivals("everything")]
    both = "mask-personal=mask, tell-privacy=notify"
    assert told == [
        None,
        both,
        "tell-finance=notify",
        None,
        both,
        "mask-personal=mask",
        "tell-finance=notify",
    ]


def test_a_chat_is_told_who_what_why_and_where_to_look(tenant: Tenant, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/services/T/B/X").respond_with_data("ok")
    declare(tenant, "tell-privacy", tags=["PII"], action="notify")
    sink = {"kind": "slack", "url": httpserver.url_for("/services/T/B/X")}
    chat = tenant.call(
        "POST",
        "/v1/subscriptions",
        json={"name": "chat", "sink": sink, "filters": [{"policy": "tell-privacy"}]},
    )
    derived = tag(QN, "PII", origin="propagation:pii")
    derived["data"] |= {"origin_asset": "demo://source", "rule": "pii", "reason": "by lineage"}
    tenant.notify(derived)
    tenant.settled(chat, 1)
    (request, _), *_ = httpserver.log
    text = str(request.json["blocks"])
    for expected in (
        "*Asset*\\n" + QN,
        "*Tag*\\nPII",
        "*From*\\ndemo://source",
        "*Rule*\\npii",
        "*Reason*\\nby lineage",
        "*By*\\nkey:tests",
        "*Policies*\\ntell-privacy=notify",
        f"{tenant.servers.environment['LILY_URL']}/v1/assets/{QN}/tags?explain=true|",
    ):
        assert expected in text, (expected, text)
