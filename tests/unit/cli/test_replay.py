"""`lily replay`: what it asks for, how it follows, what it refuses."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from lily_cli.commands import replay


def command(status: str, **detail: Any) -> dict[str, Any]:
    return {"id": "cmd_1", "command": "replay", "status": status, "detail": detail or None}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_POLL_SECONDS", 0)


def test_it_says_what_is_wanted_and_waits(api, lily) -> None:
    made = api.post("/v1/commands").respond(202, json=command("queued"))
    place = {"commit": 4, "time": "2026-01-02T10:00:00Z"}
    steps = [command("running", sent=5, position=place, last_commit=9), command("succeeded", sent=10)]
    api.get("/v1/commands/cmd_1").mock(side_effect=[httpx.Response(200, json=step) for step in steps])
    result = lily(
        *("replay", "--from", "4711", "--types", "lily.incident.opened", "--assets", "a/*"),
        *("--to-topic", "audit", "--rate", "9", "--json"),
    )
    assert result.exit_code == 0, result.output
    body = json.loads(made.calls[0].request.content)
    assert body["command"] == "replay"
    assert body["args"] == {
        "from": "4711",
        "to": None,
        "types": ["lily.incident.opened"],
        "assets": ["a/*"],
        "to_subscription": None,
        "to_topic": "audit",
        "rate": 9.0,
        "filter": True,
    }
    assert json.loads(result.stdout)["status"] == "succeeded"


def test_one_that_fails_is_an_error_and_one_not_waited_for_is_none(api, lily) -> None:
    api.post("/v1/commands").respond(202, json=command("queued"))
    api.get("/v1/commands/cmd_1").respond(200, json=command("cancelled"))
    assert lily("replay", "--to-topic", "t").exit_code == 1
    assert lily("replay", "--to-topic", "t", "--no-wait").exit_code == 0


@pytest.mark.parametrize("target", [(), ("--to-topic", "t", "--to-subscription", "s")])
def test_exactly_one_target(lily, target: tuple[str, ...]) -> None:
    result = lily("replay", *target)
    assert result.exit_code == 2
    assert "exactly one" in result.output
