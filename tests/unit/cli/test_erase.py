"""`lily erase`: what it asks, what it sends, what it waits for and what it prints."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

ERASURE: dict[str, Any] = {
    "id": "ers_1",
    "kind": "person",
    "digest": "0f3a",
    "descendants": False,
    "status": "accepted",
    "requested_by": "key:k",
    "removed": {},
    "gone_from_kafka_by": None,
    "error": None,
    "created_at": "2026-01-02T10:00:00Z",
    "applied_at": None,
    "completed_at": None,
}
APPLIED = ERASURE | {"status": "applied", "removed": {"lake bronze/events": {"rows": 3, "files": 1}}}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr("lily_cli.commands.erase._POLL_SECONDS", 0)


def test_waits_until_it_is_applied_and_shows_what_went(lily, api):
    order = api.post("/v1/erasures").respond(202, json=ERASURE)
    route = api.get("/v1/erasures/ers_1")
    route.side_effect = [httpx.Response(200, json=ERASURE), httpx.Response(200, json=APPLIED)]
    result = lily("erase", "--person", "jane@example.com", "--yes")
    assert result.exit_code == 0, result.output
    assert json.loads(order.calls[0].request.content) == {"person": "jane@example.com"}
    assert "bronze/events" in result.stdout


def test_asks_first_and_does_nothing_without_a_yes(lily, api):
    order = api.post("/v1/erasures").respond(202, json=ERASURE)
    assert lily("erase", "--asset", "x://a", stdin="n\n").exit_code == 1
    assert not order.called
    assert lily("erase", "--asset", "x://a", "--descendants", "--no-wait", stdin="y\n").exit_code == 0
    assert json.loads(order.calls[0].request.content) == {"asset": "x://a", "descendants": True}


def test_a_tenant_is_confirmed_in_the_request(lily, api):
    order = api.post("/v1/erasures").respond(202, json=ERASURE)
    assert lily("erase", "--whole-tenant", "acme", "--yes", "--no-wait").exit_code == 0
    assert json.loads(order.calls[0].request.content) == {"tenant": "acme", "confirm": "acme"}


@pytest.mark.parametrize("options", [(), ("--asset", "a", "--person", "someone")])
def test_exactly_one_thing(lily, api, options):
    assert lily("erase", *options, "--yes").exit_code == 2


def test_the_report_is_the_signed_text(lily, api):
    api.get("/v1/erasures/ers_1/report").respond(200, json={"jws": "a.b.c", "claims": {}})
    assert lily("erasures", "report", "ers_1").stdout.strip() == "a.b.c"
