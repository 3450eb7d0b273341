"""`lily tables`: what it sends, what it waits for and what it prints."""

from __future__ import annotations

import json

import pytest

COMMAND = {"id": "cmd_1", "command": "refresh_table", "args": {}, "status": "queued", "detail": None}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr("lily_cli.commands.tables._POLL_SECONDS", 0)


def answers(api, detail, status="succeeded"):
    order = api.post("/v1/commands").respond(202, json=COMMAND)
    running = COMMAND | {"status": "running"}
    route = api.get("/v1/commands/cmd_1")
    route.side_effect = [_json(running), _json(COMMAND | {"status": status, "detail": detail})]
    return order


def _json(value):
    import httpx

    return httpx.Response(200, json=value)


def test_apply_sends_the_file_as_it_is(lily, api, tmp_path):
    named = tmp_path / "a.yaml"
    named.write_text("# a comment\nname: bills_extended\nfact: cdc.shop.public.bills\n")
    unnamed = tmp_path / "other.yaml"
    unnamed.write_text("fact: cdc.shop.public.bills\n")
    first = api.put("/v1/tables/bills_extended").respond(201, json={"name": "bills_extended"})
    second = api.put("/v1/tables/other").respond(200, json={"name": "other"})
    assert lily("tables", "apply", str(named), str(unnamed)).exit_code == 0
    assert first.calls[0].request.content == named.read_bytes()
    assert first.calls[0].request.headers["content-type"] == "application/yaml"
    assert second.called


def test_apply_shows_which_field_is_wrong(lily, api, tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text("fact: nothing\n")
    problem = {"detail": "body.key: wanted", "errors": [{"field": "body.key", "message": "wanted"}]}
    api.put("/v1/tables/x").respond(422, json=problem)
    result = lily("tables", "apply", str(file))
    assert (result.exit_code, "body.key" in result.stderr) == (1, True)
    assert lily("tables", "apply", "missing.yaml").exit_code == 2


def test_list(lily, api):
    one = {
        "name": "bills_extended",
        "declaration": {"fact": {"source": "cdc.shop.public.bills"}, "dimensions": [{}], "interval": 1800},
        "last_refresh": {
            "status": "succeeded",
            "at": "2026-01-02T10:00:00Z",
            "detail": {"mode": "incremental", "facts": 3, "seconds": 0.8},
        },
    }
    waiting = one | {"name": "other", "last_refresh": None}
    api.get("/v1/tables").respond(200, json={"items": [one, waiting], "next_cursor": None})
    shown = lily("tables", "list").stdout
    assert "30m" in shown
    assert "incremental, 3 facts, 0.8 s" in shown
    assert "waiting" in shown


def test_refresh_waits_for_the_result(lily, api):
    order = answers(api, {"mode": "incremental", "facts": 3, "upserted": 2})
    result = lily("tables", "refresh", "bills_extended", "--full", "--json")
    assert json.loads(order.calls[0].request.content) == {
        "command": "refresh_table",
        "args": {"table": "bills_extended", "full": True},
    }
    assert json.loads(result.stdout)["facts"] == 3


def test_a_command_that_fails(lily, api):
    answers(api, "PlanError: bills has no column x", status="failed")
    result = lily("tables", "plan", "bills_extended")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        1,
        "error: PlanError: bills has no column x",
    )


def test_check_tells_of_drift(lily, api):
    found = {"key": {"id": 1}, "kind": "wrong", "columns": {"status": {"is": "a", "should": "b"}}}
    answers(api, {"mode": "full", "drift": 1, "repaired": 0, "examples": [found]})
    result = lily("tables", "check", "bills_extended", "--no-repair")
    assert result.exit_code == 1
    assert '"should": "b"' in result.stdout
    answers(api, {"mode": "full", "drift": 1, "repaired": 1, "examples": [found]})
    assert lily("tables", "check", "bills_extended").exit_code == 0


def test_explain(lily, api):
    source = {
        "source": "payments",
        "table": "cdc.shop.public.payments",
        "join": "left",
        "rows_per_hour": 12.5,
        "facts_per_hour": 11.0,
        "included": True,
        "stale_by_full_refresh": 0.25,
        "advice": "include",
    }
    answers(api, {"sources": [source], "select": {"id": "bills.id"}, "aggregates": {}})
    shown = lily("tables", "explain", "bills_extended").stdout
    assert "25.0 %" in shown
    assert "bills.id" in shown


def test_delete(lily, api):
    gone = api.delete("/v1/tables/bills_extended").respond(204)
    assert lily("tables", "delete", "bills_extended").exit_code == 0
    assert gone.called
