"""The receiver: a web server in a process of its own that takes deliveries, checks signatures and keeps a journal.

`POST /<name>` is a delivery. `PUT /_/<name>` tells what the test knows of that name: `{"secret": "whsec_…"}`, the
secret to check with; `{"fail": n, "status": s}`, to answer the next n deliveries with status s; and `{"refuse": q}`, to
answer those of asset q with status s until told another asset, or none.

`python -m tests.support.receiver --port P --journal J`; port 0 picks one. It prints its port as its first line.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import httpx
import orjson
import uvicorn
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.support.journal import Arrival, read_arrivals

KEPT_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature", "content-type", "user-agent")


@dataclass
class Name:
    """What is known of one path."""

    webhook: Webhook | None = None
    fail: int = 0
    status: int = 500
    refuse: str | None = None


def verdict(webhook: Webhook | None, headers: dict[str, str], body: bytes) -> bool | None:
    """Whether the Standard Webhooks signature is right; None when there is no secret to check with.

    standardwebhooks 1.1.0 raises ValueError and UnicodeDecodeError of its own accord for malformed input.
    """
    if webhook is None:
        return None
    try:
        webhook.verify(body, headers)
    except (WebhookVerificationError, ValueError):
        return False
    return True


class Receiver:
    """An ASGI application. Bare, for what it costs is in every latency measured."""

    def __init__(self, journal: BinaryIO) -> None:
        self._journal = journal
        self._names: dict[str, Name] = {}

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        at = time.time_ns()
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        if scope["method"] == "PUT":
            status = self._tell(scope["path"].removeprefix("/_/"), body)
        else:
            status = self._take(scope, body, at)
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    def _tell(self, name: str, body: bytes) -> int:
        told = orjson.loads(body)
        known = self._names.setdefault(name, Name())
        if "secret" in told:
            known.webhook = Webhook(told["secret"])
        known.fail, known.status = told.get("fail", known.fail), told.get("status", known.status)
        known.refuse = told.get("refuse", known.refuse)
        return 204

    def _take(self, scope: dict[str, Any], body: bytes, at: int) -> int:
        name = scope["path"].lstrip("/")
        known = self._names.setdefault(name, Name())
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        event = orjson.loads(body)
        status = 204
        if known.fail > 0:
            known.fail -= 1
            status = known.status
        elif known.refuse is not None and event.get("subject") == known.refuse:
            status = known.status
        kept = {key: headers[key] for key in KEPT_HEADERS if key in headers}
        arrival = Arrival(name, at, kept, event, status, verdict(known.webhook, headers, body))
        self._journal.write(orjson.dumps(arrival) + b"\n")
        self._journal.flush()
        return status


class ReceiverProcess:
    """The receiver as a child process. `url(name)` is where a subscription delivers to."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        command = [sys.executable, "-m", "tests.support.receiver", "--journal", str(journal)]
        root = Path(__file__).resolve().parents[2]
        self.process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def __enter__(self) -> ReceiverProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        self.process.wait(10)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"

    def tell(self, name: str, **what: Any) -> None:
        """`secret=`, `fail=`, `status=`, `refuse=` as the module says."""
        httpx.put(self.url(f"_/{name}"), json=what, trust_env=False).raise_for_status()

    def arrivals(self, name: str | None = None) -> list[Arrival]:
        """All so far, in order of arrival."""
        return [arrival for arrival in read_arrivals(self.journal) if name in (None, arrival.name)]


async def serve(listening: socket.socket, journal: Path) -> None:
    with journal.open("ab") as file:
        config = uvicorn.Config(Receiver(file), log_level="warning", access_log=False, lifespan="off")
        await uvicorn.Server(config).serve(sockets=[listening])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.receiver")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--journal", required=True, type=Path)
    arguments = parser.parse_args()
    listening = socket.create_server(("127.0.0.1", arguments.port), backlog=1024)
    print(listening.getsockname()[1], flush=True)
    gc.freeze()
    asyncio.run(serve(listening, arguments.journal))


if __name__ == "__main__":
    main()
