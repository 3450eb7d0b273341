"""Server-Sent Events: parsed as the standard has it, taken up again after the last id seen."""

from __future__ import annotations

import json

import httpx

from lily_cli import sse

EVENT = {
    "type": "lily.classification.attached",
    "subject": "a://b/c",
    "time": "2026-01-15T18:10:00.123456Z",
    "data": {"tag": "PII"},
}


def message(event: dict, event_id: str) -> str:
    return f"id: {event_id}\nevent: notice\ndata: {json.dumps(event)}\n\n"


def test_parsing():
    lines = [
        ": heartbeat",
        "",
        "id: 7",
        "event: notice",
        "data: one",
        "data: two",
        "",
        "data:three",
        "",
        "data: cut",
    ]
    assert list(sse.parse(lines)) == [
        sse.Message("notice", "one\ntwo", "7"),
        sse.Message("message", "three", "7"),
    ]


def test_a_heartbeat_says_where_the_stream_stands():
    lines = ["id: 7-1", "", ": heartbeat", "id: 8-1", "", "data: x", ""]
    assert [(item.data, item.id) for item in sse.parse(lines)] == [("", "7-1"), ("", "8-1"), ("x", "8-1")]


def test_a_broken_connection_is_resumed(lily, api, monkeypatch):
    monkeypatch.setattr(sse.time, "sleep", lambda _: None)
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("last-event-id"))
        if len(seen) == 2:
            raise httpx.ReadError("reset")
        number = "p0-1" if len(seen) == 1 else "p0-2"
        return httpx.Response(200, text=message(EVENT, number), headers={"content-type": "text/event-stream"})

    api.get("/v1/stream").mock(side_effect=answer)
    result = lily("tail", "--count", "2", "--json")
    assert result.exit_code == 0
    assert seen == [None, "p0-1", "p0-1"]
    assert [json.loads(line)["stream_id"] for line in result.stdout.splitlines()] == ["p0-1", "p0-2"]


def test_a_line_for_people(lily, api):
    api.get("/v1/stream").respond(200, text=message(EVENT, "1"))
    result = lily("tail", "-n", "1", "--type", "lily.classification.attached")
    assert result.stdout == "2026-01-15 18:10:00.123 classification.attached a://b/c PII\n"
    assert api.calls[0].request.url.params["type"] == "lily.classification.attached"


def test_a_refusal_ends_it(lily, api):
    api.get("/v1/stream").respond(403, json={"detail": "this needs the scope stream:read"})
    result = lily("tail")
    assert (result.exit_code, result.stderr) == (1, "error: this needs the scope stream:read (403)\n")
