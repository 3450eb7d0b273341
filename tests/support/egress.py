"""The egress worker as a process of its own, and notices for it, as fan-out would write them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from lily_common.envelope import AcceptedEvent, accept
from lily_common.events import NOTICES_TOPIC
from lily_common.kafka import Producer, Record
from tests.support.poll import until
from tests.support.stack import free_port

SOURCE = "urn:test:catalogue"


class EgressProcess:
    """`python -m lily_connectors egress`; started by `start`, ready when that returns."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self.port = free_port()
        self._environment = {**os.environ, **environment, "LILY_METRICS_PORT": str(self.port)}
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "lily_connectors", "egress"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        until(self.ready, "egress to be ready", deadline=60)

    def ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log_tail()
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/readyz", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def metrics(self) -> str:
        return httpx.get(f"http://127.0.0.1:{self.port}/metrics", trust_env=False).text

    def log_tail(self, characters: int = 6000) -> str:
        return self._log.read_text(errors="replace")[-characters:] if self._log.exists() else ""

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def event(event_type: str, data: dict[str, Any], **attributes: Any) -> dict[str, Any]:
    """A CloudEvent as a client would send it."""
    return {
        "specversion": "1.0",
        "id": uuid4().hex,
        "source": SOURCE,
        "type": f"lily.{event_type}",
        "data": data,
        **attributes,
    }


def tag(
    qualified_name: str, name: str, *, attached: bool = True, origin: str = "direct", **attributes: Any
) -> dict[str, Any]:
    kind = "classification.attached" if attached else "classification.detached"
    return event(kind, {"qualified_name": qualified_name, "tag": name, "origin": origin}, **attributes)


def accepted(tenant: str, events: Iterable[dict[str, Any]]) -> list[AcceptedEvent]:
    return [accept(tenant, one, datetime.now(UTC), caller="key:tests") for one in events]


def notify(bootstrap: str, tenant: str, events: Iterable[dict[str, Any]], *, copies: int = 2) -> None:
    """Write the events to `lily.notices` in this order, all of them `copies` times, as the hedged pair does."""
    records = [Record(NOTICES_TOPIC, one.key, one.value) for one in accepted(tenant, events)]

    async def send() -> None:
        producer = Producer(bootstrap)
        try:
            for _ in range(copies):
                await producer.send(records)
        finally:
            producer.close()

    asyncio.run(send())
