"""Two receivers of other people's making, on loopback: one takes Standard Webhooks, one looks like Slack's."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lily_local.demo.checks import DemoError, until

_LOOK = 0.05
_SHOWN = ("content-type", "webhook-id", "webhook-timestamp", "webhook-signature")


@dataclass(frozen=True)
class Received:
    """One POST. `at` is when its headers had been read, before its body; header names are lower-case."""

    at: datetime
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        decoded = json.loads(self.body)
        if not isinstance(decoded, dict):
            raise DemoError(f"{self.path} received something that is no JSON object")
        return decoded


@dataclass
class Receiver:
    """What came to one server so far."""

    url: str
    calls: list[Received] = field(default_factory=list)

    def wait_for(self, count: int, seconds: float) -> list[Received]:
        """The first `count` calls, once they are here. Raises DemoError when they do not come."""
        until(
            f"{count} calls at {self.url} (so far {len(self.calls)})",
            lambda: len(self.calls) >= count,
            seconds,
            0.005,
        )
        return self.calls[:count]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: bytes, path: str, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.answer = answer
        self.receiver = Receiver(f"http://127.0.0.1:{self.server_port}{path}")


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        at = datetime.now(UTC)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.receiver.calls.append(Received(at, self.path, headers, body))
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, *_: object) -> None:
        """The demo prints for itself."""


@contextmanager
def webhook() -> Iterator[Receiver]:
    """A receiver of Standard Webhooks."""
    with _serving(_Server(b"", "/hook")) as receiver:
        yield receiver


@contextmanager
def slack() -> Iterator[Receiver]:
    """A receiver that answers as Slack's incoming webhooks do."""
    with _serving(_Server(b"ok", "/services/T0DEMO/B0DEMO/demo")) as receiver:
        yield receiver


@contextmanager
def _serving(server: _Server) -> Iterator[Receiver]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main() -> int:
    """`python -m lily_local.demo.receivers [PORT]`: print what comes, until interrupted."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9000
    with _serving(_Server(b"ok", "/hook", port)) as receiver:
        sys.stdout.write(f"listening at {receiver.url}\n")
        seen = 0
        while True:
            time.sleep(_LOOK)
            for call in receiver.calls[seen:]:
                headers = " ".join(
                    f"{name}={value}" for name, value in call.headers.items() if name in _SHOWN
                )
                sys.stdout.write(f"{call.at:%H:%M:%S.%f} {headers}\n{call.body.decode(errors='replace')}\n")
                sys.stdout.flush()
                seen += 1


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
