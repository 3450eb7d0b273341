"""The load: an open-loop client in a process of its own that sends a plan and keeps a journal.

Open loop: a request is due at its time whatever the server does, and its latency counts from then, so that a stall is
paid by every request that it held up. A client never gives up on an answer that is not clear: after a refused
connection, a timeout, a 429 or a 5xx it sends the same bytes again, with a pause that doubles up to a second.

`python -m tests.support.load --url U --plan P --journal J` with LILY_LOAD_KEYS, a JSON object of tenant to API key.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson
import uvloop

from tests.support.journal import Request, lines, read_plan
from tests.support.wire import Pool, post

KEYS_VARIABLE = "LILY_LOAD_KEYS"
CONNECTIONS = 256
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
#: Answered by these, the request will never be accepted as it is.
FINAL = frozenset(range(400, 500)) - {408, 425, 429}
ACCEPTED = frozenset({"accepted", "duplicate"})


def encode(request: Request, host: str, keys: dict[str, str]) -> bytes:
    """One event as a CloudEvent, several as a batch (CloudEvents' JSON batch format)."""
    single = len(request.events) == 1
    media = "application/cloudevents+json" if single else "application/cloudevents-batch+json"
    headers = {"Authorization": f"Bearer {keys[request.tenant]}", "Content-Type": media}
    body: Any = request.events[0] if single else request.events
    return post(host, "/v1/events", headers, orjson.dumps(body))


def accepted_items(status: int, body: bytes, count: int) -> list[int]:
    """Positions of the items that the answer calls accepted; all of them unless it says otherwise item by item."""
    answer = orjson.loads(body) if body else {}
    items = answer.get("items") if isinstance(answer, dict) else None
    if items is None:
        return list(range(count)) if 200 <= status < 300 else []
    return [position for position, item in enumerate(items) if item.get("status") in ACCEPTED]


class Sender:
    """Sends one plan. `journal` is written as things happen, in the order in which they do."""

    def __init__(
        self, url: str, requests: list[Request], keys: dict[str, str], journal: Path, connections: int
    ) -> None:
        self._pool = Pool(url, connections)
        self._requests = requests
        host = f"{self._pool.host}:{self._pool.port}"
        self._bytes = [encode(request, host, keys) for request in requests]
        self._journal = journal.open("wb")
        self._chains: dict[str, asyncio.Task[None]] = {}

    def _write(self, **line: Any) -> None:
        self._journal.write(orjson.dumps(line) + b"\n")

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        start, start_ns = loop.time() + 0.2, time.time_ns() + 200_000_000
        self._write(start=start_ns)
        self._journal.flush()
        flusher = loop.create_task(self._flush())
        tasks: set[asyncio.Task[None]] = set()
        for index, request in enumerate(self._requests):
            pause = start + request.due - loop.time()
            if pause > 0:
                await asyncio.sleep(pause)
            before = self._chains.get(request.chain) if request.chain else None
            task = loop.create_task(self._send(index, before))
            if request.chain:
                self._chains[request.chain] = task
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        while tasks:
            await asyncio.wait(tasks)
        flusher.cancel()
        self._write(end=time.time_ns())
        self._journal.close()
        self._pool.close()

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            self._journal.flush()

    async def _send(self, index: int, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        self._write(sent=index, at=time.time_ns())
        count = len(self._requests[index].events)
        kept: set[int] = set()
        pause, attempts = FIRST_PAUSE, 0
        while True:
            attempts += 1
            try:
                status, body = await self._pool.ask(self._bytes[index])
            except (OSError, TimeoutError):
                status, body = 0, b""
            now = time.time_ns()
            fresh = (
                [item for item in accepted_items(status, body, count) if item not in kept] if status else []
            )
            if fresh:
                kept.update(fresh)
                self._write(acked=index, n=fresh, at=now, attempts=attempts)
            if len(kept) == count:
                return
            if status in FINAL:
                self._write(refused=index, status=status, body=body.decode(errors="replace")[:2000])
                return
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, LONGEST_PAUSE)


class LoadProcess:
    """The generator as a child process. Leaving the context ends it; `wait` returns when every request is answered."""

    def __init__(
        self, url: str, plan: Path, journal: Path, keys: dict[str, str], *, connections: int = CONNECTIONS
    ) -> None:
        self.plan, self.journal = plan, journal
        command = [sys.executable, "-m", "tests.support.load", "--url", url]
        command += ["--plan", str(plan), "--journal", str(journal), "--connections", str(connections)]
        environment = os.environ | {KEYS_VARIABLE: orjson.dumps(keys).decode()}
        root = Path(__file__).resolve().parents[2]
        self.process = subprocess.Popen(command, env=environment, cwd=root)

    def __enter__(self) -> LoadProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(10)

    def wait(self, timeout: float) -> None:
        """Raises subprocess.TimeoutExpired when something is still unanswered, AssertionError when it failed."""
        code = self.process.wait(timeout)
        assert code == 0, f"the load generator ended with {code}"

    def acked(self) -> int:
        """How many requests are answered so far."""
        return sum("acked" in line for line in lines(self.journal))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.load")
    parser.add_argument("--url", required=True)
    parser.add_argument("--plan", required=True, type=Path)
    parser.add_argument("--journal", required=True, type=Path)
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help="Most requests at a time")
    arguments = parser.parse_args()
    keys = orjson.loads(os.environ[KEYS_VARIABLE])
    sender = Sender(arguments.url, read_plan(arguments.plan), keys, arguments.journal, arguments.connections)
    gc.collect()
    gc.freeze()
    gc.disable()
    uvloop.run(sender.run())


if __name__ == "__main__":
    main()
