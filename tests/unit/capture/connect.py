"""Connect's REST interface in memory, which can break off at any call."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import httpx


@dataclass
class Held:
    config: dict[str, str]
    state: str = "RUNNING"
    offsets: bool = True
    tasks: list[dict[str, Any]] = field(default_factory=lambda: [{"id": 0, "state": "RUNNING"}])


class Connect:
    """`breaks_at`: the number of the call (from 0) that is carried out, but whose answer is lost."""

    def __init__(self) -> None:
        self.held: dict[str, Held] = {}
        self.calls: list[str] = []
        self.breaks_at: int | None = None
        self.refuses = ""

    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._serve)

    def _serve(self, request: httpx.Request) -> httpx.Response:
        number = len(self.calls)
        self.calls.append(f"{request.method} {request.url.path}")
        answer = self._answer(request)
        if number == self.breaks_at:
            raise httpx.ReadError("broken on purpose", request=request)
        return answer

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/config/validate"):
            errors = [self.refuses] if self.refuses else []
            return httpx.Response(200, json={"configs": [{"value": None}, {"value": {"errors": errors}}]})
        _, _, name, *rest = [*request.url.path.split("/"), ""]
        what = f"{request.method} {rest[0]}"
        if what == "PUT config":
            if self.refuses:
                return httpx.Response(400, json={"error_code": 400, "message": self.refuses})
            given = json.loads(request.content)
            if name in self.held:
                self.held[name].config = given
            else:
                self.held[name] = Held(given)
            return httpx.Response(200, json={})
        held = self.held.get(name)
        if held is None:
            return httpx.Response(404, json={"error_code": 404, "message": "not found"})
        if what == "GET config":
            return httpx.Response(200, json=held.config)
        if what == "GET status":
            tasks = [] if held.state == "STOPPED" else held.tasks
            return httpx.Response(200, json={"connector": {"state": held.state}, "tasks": tasks})
        if what in ("PUT pause", "PUT resume", "PUT stop"):
            held.state = {"pause": "PAUSED", "resume": "RUNNING", "stop": "STOPPED"}[rest[0]]
            return httpx.Response(202)
        if what == "POST restart":
            held.tasks = [{"id": 0, "state": "RUNNING"}]
            return httpx.Response(202, json={})
        if what == "DELETE offsets":
            if held.state != "STOPPED":
                return httpx.Response(400, json={"error_code": 400, "message": "must be stopped"})
            held.offsets = False
            return httpx.Response(200, json={})
        assert what == "DELETE ", what
        del self.held[name]
        return httpx.Response(204)
