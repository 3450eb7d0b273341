"""What commands send."""

from __future__ import annotations

import gzip
import json

import pytest


def sent(route, call: int = 0):
    request = route.calls[call].request
    body = request.content
    return json.loads(gzip.decompress(body) if request.headers.get("content-encoding") == "gzip" else body)


def accepted(count: int) -> dict:
    items = [
        {"index": index, "id": str(index), "status": "accepted", "lane": "priority"} for index in range(count)
    ]
    return {"accepted": count, "rejected": 0, "items": items}


def test_tag_attaches_by_one_event(lily, api):
    route = api.post("/v1/events").respond(202, json=accepted(1))
    result = lily("tag", "postgres://a/b", "PII", "--reason", "looks like one")
    assert result.exit_code == 0
    [event] = sent(route)
    assert route.calls[0].request.headers["content-type"] == "application/cloudevents-batch+json"
    assert event["type"] == "lily.classification.attached"
    assert event["data"] == {
        "qualified_name": "postgres://a/b",
        "tag": "PII",
        "origin": "direct",
        "origin_kind": "direct",
        "reason": "looks like one",
    }
    assert "time" not in event


def test_tag_removes(lily, api):
    route = api.post("/v1/events").respond(202, json=accepted(1))
    lily("tag", "postgres://a/b", "PII", "--remove", "--origin", "scanner")
    [event] = sent(route)
    assert (event["type"], event["data"]["origin"]) == ("lily.classification.detached", "scanner")


def test_a_rejected_tag_is_an_error(lily, api):
    item = {"index": 0, "id": "1", "status": "rejected", "problem": {"detail": "data.tag: wrong"}}
    api.post("/v1/events").respond(422, json={"accepted": 0, "rejected": 1, "items": [item]})
    result = lily("tag", "postgres://a/b", "PII")
    assert (result.exit_code, result.stderr) == (1, "error: data.tag: wrong\n")


def test_events_go_in_batches_and_one_bad_costs_no_good_one(lily, api):
    bad = {"index": 1, "id": "b", "status": "rejected", "problem": {"detail": "type: unknown type"}}
    mixed = {"accepted": 1, "rejected": 1, "items": [accepted(1)["items"][0], bad]}
    route = api.post("/v1/events")
    route.side_effect = [httpx_response(207, mixed), httpx_response(202, accepted(1))]
    lines = "\n".join(json.dumps({"id": str(number)}) for number in range(3))
    result = lily("events", "send", "-", "--batch", "2", stdin=lines)
    assert result.exit_code == 1
    assert [len(sent(route, call)) for call in range(2)] == [2, 1]
    assert "2 accepted, 1 rejected" in result.stderr
    assert "event 1 (b): type: unknown type" in result.stderr


def test_many_events_are_compressed(lily, api, tmp_path):
    route = api.post("/v1/events").respond(202, json=accepted(300))
    file = tmp_path / "events.json"
    file.write_text(json.dumps([{"id": str(number), "data": {"text": "x" * 50}} for number in range(300)]))
    assert lily("events", "send", str(file)).exit_code == 0
    assert route.calls[0].request.headers["content-encoding"] == "gzip"
    assert len(sent(route)) == 300


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": 1}\nno json\n', "line 2 is not JSON"),
        ("[1, 2]", "an event is a JSON object"),
        ("", "no events in it"),
    ],
)
def test_files_that_hold_no_events(lily, tmp_path, text, message):
    file = tmp_path / "events.json"
    file.write_text(text)
    result = lily("events", "send", str(file))
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_subscription_of_a_tag(lily, api):
    route = api.post("/v1/subscriptions").respond(201, json={"id": "sub_1", "secret": "whsec_x"})
    options = [
        "--name",
        "pii",
        "--url",
        "https://example.com/hook",
        "--tag",
        "PII",
        "--prefix",
        "postgres://",
    ]
    result = lily("subscriptions", "create", *options)
    assert result.exit_code == 0
    assert sent(route) == {
        "name": "pii",
        "sink": {"kind": "webhook", "url": "https://example.com/hook"},
        "filters": [{"exact": {"data.tag": "PII"}}, {"prefix": {"subject": "postgres://"}}],
        "types": ["lily.classification.attached", "lily.classification.detached"],
    }
    assert "whsec_x" in result.stdout


def test_a_key_with_an_end(lily, api):
    route = api.post("/v1/keys").respond(201, json={"id": "key_1", "key": "lily_x_y", "scopes": ["admin"]})
    assert lily("keys", "create", "ci", "--scope", "admin", "--expires", "90d").exit_code == 0
    assert sent(route)["scopes"] == ["admin"]
    assert "T" in sent(route)["expires_at"]
    assert lily("keys", "create", "ci", "--scope", "admin", "--expires", "soon").exit_code == 2


def test_tenants_are_the_operators(lily, api):
    route = api.post("/v1/tenants").respond(201, json={"id": "acme"})
    assert lily("tenants", "create", "acme").exit_code == 2
    result = lily("tenants", "create", "acme", flags=("--admin-key", "operator"))
    assert result.exit_code == 0
    headers = route.calls[0].request.headers
    assert headers["authorization"] == "Bearer operator"
    assert "x-lily-tenant" not in headers


def httpx_response(status: int, body: dict):
    import httpx

    return httpx.Response(status, json=body)


STATUS = {
    "id": "con_1",
    "wanted": "active",
    "state": "failed",
    "settled": True,
    "problem": "Connection refused",
    "tasks": [{"id": 0, "state": "failed", "error": "Caused by: Connection refused"}],
    "topics": ["cdc.acme.shop.public.orders"],
}


def test_the_password_of_a_source_comes_from_the_environment(lily, api, monkeypatch):
    monkeypatch.setenv("LILY_CONNECTOR_PASSWORD", "hunter2")
    route = api.post("/v1/connectors").respond(201, json={"id": "con_1"})
    result = lily(
        "connectors", "create", "debezium-postgres", "--name", "Shop", "--config", '{"source": "shop"}'
    )
    assert result.exit_code == 0
    assert sent(route)["config"] == {"source": "shop", "password": "hunter2"}
    assert "hunter2" not in result.output


def test_status_shows_each_task(lily, api):
    api.get("/v1/connectors/con_1/status").respond(200, json=STATUS)
    result = lily("connectors", "status", "con_1")
    assert result.exit_code == 0
    for text in ("failed", "Connection refused", "TASK", "Caused by", "cdc.acme.shop.public.orders"):
        assert text in result.stdout
    assert json.loads(lily("connectors", "status", "con_1", "--json").stdout) == STATUS


@pytest.mark.parametrize(("command", "status"), [("pause", "paused"), ("resume", "active")])
def test_pause_and_resume(lily, api, command, status):
    route = api.patch("/v1/connectors/con_1").respond(200, json={})
    api.get("/v1/connectors/con_1/status").respond(200, json=STATUS)
    assert lily("connectors", command, "con_1").exit_code == 0
    assert sent(route) == {"status": status}


def test_what_a_source_leaves_is_told(lily, api):
    left = {"id": "con_1", "removed": False, "detail": "the slot is left"}
    api.delete("/v1/connectors/con_1").respond(200, json=left)
    assert "the slot is left" in lily("connectors", "delete", "con_1").stderr
