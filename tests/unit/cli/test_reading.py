"""Lists are fetched page by page; --json prints what the API said; names go into paths encoded."""

from __future__ import annotations

import json

import httpx


def test_all_pages_are_listed(lily, api):
    def answer(request: httpx.Request) -> httpx.Response:
        second = request.url.params.get("cursor") == "next"
        item = {"id": "key_2" if second else "key_1", "name": "ci", "prefix": "abc", "scopes": ["admin"]}
        return httpx.Response(200, json={"items": [item], "next_cursor": None if second else "next"})

    api.get("/v1/keys").mock(side_effect=answer)
    result = lily("keys", "list", "--json")
    assert result.exit_code == 0
    assert [key["id"] for key in json.loads(result.stdout)] == ["key_1", "key_2"]


def test_a_limit_ends_the_paging(lily, api):
    route = api.get("/v1/assets").respond(
        json={"items": [{"qualified_name": "a://b"}] * 2, "next_cursor": "more"}
    )
    result = lily("assets", "list", "--tag", "PII", "--limit", "2", "--json")
    assert len(json.loads(result.stdout)) == 2
    assert route.call_count == 1
    assert dict(route.calls[0].request.url.params) == {"tag": "PII", "limit": "2"}


def test_a_qualified_name_is_one_path_segment(lily, api):
    name = "postgres://shop-db:5432/shop/public/customers/e mail#?"
    route = api.route(method="GET", path__startswith="/v1/assets/").respond(json={"qualified_name": name})
    assert lily("assets", "get", name).exit_code == 0
    raw = route.calls[0].request.url.raw_path
    assert raw == b"/v1/assets/postgres%3A%2F%2Fshop-db%3A5432%2Fshop%2Fpublic%2Fcustomers%2Fe%20mail%23%3F"


def test_an_empty_list_says_so_on_stderr(lily, api):
    api.get("/v1/keys").respond(json={"items": [], "next_cursor": None})
    result = lily("keys", "list")
    assert (result.stdout, result.stderr) == ("", "no keys\n")
    assert json.loads(lily("keys", "list", "--json").stdout) == []


def test_a_delivery_shows_how_long_each_hop_took(lily, api):
    hops = {
        "accepted_at": "2026-01-15T18:10:00.000000Z",
        "noticed_at": "2026-01-15T18:10:00.010000Z",
        "consumed_at": "2026-01-15T18:10:00.012000Z",
        "committed_at": "2026-01-15T18:10:00.016000Z",
        "sent_at": "2026-01-15T18:10:00.017000Z",
        "finished_at": None,
    }
    delivery = {
        "id": "0f3a5c7e-9b1d-4f4a-8c8e-0b2d4f6a8c0e",
        "subscription_id": "sub_1",
        "status": "pending",
        "event": {"id": "1", "source": "urn:x", "type": "lily.classification.attached"},
        "asset": "a://b/c",
        "transition": "attached",
        "attempts": 1,
        "last_status_code": None,
        "last_error": "timeout",
        "hops": hops,
        "attempt_log": [{"number": 1, "ok": False, "error": "timeout"}],
    }
    api.get(f"/v1/deliveries/{delivery['id']}").respond(json=delivery)
    lines = lily("deliveries", "show", delivery["id"]).stdout.splitlines()
    committed = next(line.split() for line in lines if line.startswith("committed"))
    assert committed[-2:] == ["4.0", "16.0"]
    assert any("timeout" in line for line in lines)
