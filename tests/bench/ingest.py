"""Durable events per second through the API, beside two plain ways into the same broker, all in one run.

`batch-100`: our batches of 100 beside peer (a), a bare confluent-kafka loop: ratio of events per second.
`batch-1`: single events beside peer (b), a plain FastAPI and aiokafka service: ratio of events per second of the
service's CPU time. Both services are one process. Each figure is the median of `--rounds` rounds, ours and the peer's in turn;
clients are closed loops, so that the server is never short of work. Ours also checks every payload, archives the raw
request and authorises; the peers do not. Nothing reads the topics meanwhile: what is compared is the way in.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import orjson
from confluent_kafka.admin import AdminClient, NewTopic

from tests.bench import plans
from tests.bench.machine import Steal, cpu_seconds
from tests.bench.result import Gate, Row, publish
from tests.support.journal import Request, lines, write_plan
from tests.support.load import LoadProcess
from tests.support.poll import until
from tests.support.stack import Stack, free_port, running_stack

PARTITIONS = 4
CONNECTIONS = {100: 4, 1: 32}
OUR_TOPICS = ("lily.changes.priority", "lily.changes.bulk")


@dataclass(frozen=True)
class Round:
    """One measured run of one side."""

    events: int
    seconds: float
    cpu: float
    steal: dict[str, float]

    @property
    def per_second(self) -> float:
        return self.events / self.seconds

    @property
    def per_cpu_second(self) -> float:
        return self.events / max(self.cpu, 1e-9)


def summary(rounds: list[Round]) -> dict[str, Any]:
    """Medians, and the rounds they come from."""
    return {
        "events_per_second": round(statistics.median(item.per_second for item in rounds), 1),
        "events_per_cpu_second": round(statistics.median(item.per_cpu_second for item in rounds), 1),
        "rounds": [
            {
                "events_per_second": round(item.per_second),
                "events_per_cpu_second": round(item.per_cpu_second),
                "steal_percent": item.steal,
            }
            for item in rounds
        ],
    }


class Ingest:
    """The rounds of both cases on one stack, with what they need in `folder`."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self._tenant = stack.new_tenant()
        self._sent: set[str] = set()
        self._starts = {topic: stack.log.ends(topic) for topic in OUR_TOPICS}
        self._bootstrap = stack.environment["KAFKA_BOOTSTRAP"]
        self._peer_end = 0
        self._peer_topic = f"peer.{self._tenant.id}"
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        topic = NewTopic(self._peer_topic, num_partitions=PARTITIONS, replication_factor=1)
        admin.create_topics([topic])[self._peer_topic].result(30)

    def ours(self, size: int, count: int) -> Round:
        """`count` events through the API in requests of `size`."""
        batches = list(_batches(self._tenant.id, size, count))
        self._sent.update(event["id"] for batch in batches for event in batch.events)
        return self._over_http(self._stack.url, self._stack.pid("api"), size, batches)

    def loop(self, count: int) -> Round:
        """Peer (a): `count` messages of the same form from one producer."""
        messages = self._folder / "messages"
        if not messages.exists():
            events = [event for batch in _batches("peer", 100, 10_000) for event in batch.events]
            messages.write_bytes(b"\n".join(orjson.dumps(event) for event in events))
        command = [sys.executable, "-m", "tests.bench.peers.producer_loop", "--messages", str(messages)]
        command += ["--bootstrap", self._bootstrap, "--topic", self._peer_topic, "--count", str(count)]
        with Steal() as steal:
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        told = json.loads(output)
        assert told["acked"] == count, told
        self._check_peer(count)
        return Round(count, told["seconds"], told["cpu_seconds"], steal.percent)

    def service(self, count: int) -> Round:
        """Peer (b): `count` events through the plain service, one a request."""
        with self._plain_service() as (url, pid):
            self._over_http(url, pid, 1, list(_batches(self._tenant.id, 1, count // 10)))  # warm, as ours is
            measured = self._over_http(url, pid, 1, list(_batches(self._tenant.id, 1, count)))
        self._check_peer(count // 10 + count)
        return measured

    def _check_peer(self, count: int) -> None:
        """The peer's events are in Kafka too: a peer that loses some is no peer."""
        before, self._peer_end = self._peer_end, sum(self._stack.log.ends(self._peer_topic).values())
        assert self._peer_end - before == count, f"{self._peer_end - before} of the peer's {count} events"

    @contextmanager
    def _plain_service(self) -> Iterator[tuple[str, int]]:
        port = free_port()
        command = [sys.executable, "-m", "uvicorn", "tests.bench.peers.plain_service:app"]
        command += ["--port", str(port), "--log-level", "warning", "--no-access-log"]
        environment = os.environ | {"KAFKA_BOOTSTRAP": self._bootstrap, "PEER_TOPIC": self._peer_topic}
        process = subprocess.Popen(command, env=environment)
        url = f"http://127.0.0.1:{port}"
        try:
            until(lambda: _answers(f"{url}/readyz"), "the plain service to start")
            yield url, process.pid
        finally:
            process.terminate()
            process.wait(20)

    def _over_http(self, url: str, pid: int, size: int, batches: list[Request]) -> Round:
        plan, journal = self._folder / "plan", self._folder / "journal"
        write_plan(plan, batches)
        keys = {self._tenant.id: self._tenant.key}
        with Steal() as steal:
            cpu = cpu_seconds([pid])
            with LoadProcess(url, plan, journal, keys, connections=CONNECTIONS[size]) as load:
                load.wait(600)
            cpu = cpu_seconds([pid]) - cpu
        moments = [line["at"] for line in lines(journal) if "sent" in line or "acked" in line]
        count = sum(len(line["n"]) for line in lines(journal) if "acked" in line)
        return Round(count, (moments[-1] - moments[0]) / 1e9, cpu, steal.percent)

    def gate(self) -> Gate:
        """Every event acknowledged since the start against what is in Kafka."""
        found: Counter[str] = Counter()
        for topic, start in self._starts.items():
            for message in self._stack.log.read(topic, start, timeout=300):
                event = orjson.loads(message.value() or b"{}")
                if event.get("tenantid") == self._tenant.id:
                    found[event["id"]] += 1
        self._starts = {topic: self._stack.log.ends(topic) for topic in OUR_TOPICS}
        lost = len(self._sent - found.keys())
        duplicates = sum(found.values()) - len(found)
        sent, self._sent = len(self._sent), set()
        return Gate(sent, len(found), lost, duplicates)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def _batches(tenant: str, size: int, count: int) -> Iterator[Request]:
    """Columns and tables as an estate has them, nine to one."""
    run, now = os.urandom(4).hex(), datetime.now(UTC)
    for first in range(0, count, size):
        numbers = range(first, first + size)
        events = [plans.upsert(run, n, now, "column" if n % plans.TABLES_EVERY else "table") for n in numbers]
        yield Request(0.0, tenant, events)


def measure(
    rounds: int, ours: Callable[[], Round], peer: Callable[[], Round]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ours and the peer in turn, so that what the machine does to one it does to the other."""
    pairs = [(ours(), peer()) for _ in range(rounds)]
    return summary([mine for mine, _ in pairs]), summary([theirs for _, theirs in pairs])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.ingest")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="Share of the full number of events")
    arguments = parser.parse_args()
    batched = max(1000, int(100_000 * arguments.scale))
    single = max(500, int(15_000 * arguments.scale))
    with tempfile.TemporaryDirectory() as folder, running_stack("api") as stack:
        ingest = Ingest(stack, Path(folder))
        ingest.ours(100, batched // 10)
        ingest.ours(1, single // 10)
        ingest.gate()
        ours, peer = measure(
            arguments.rounds, lambda: ingest.ours(100, batched), lambda: ingest.loop(batched)
        )
        ratio = ours["events_per_second"] / peer["events_per_second"]
        rows = [Row("batch-100", ours, ingest.gate(), peer, round(ratio, 2))]
        ours, peer = measure(arguments.rounds, lambda: ingest.ours(1, single), lambda: ingest.service(single))
        ratio = ours["events_per_cpu_second"] / peer["events_per_cpu_second"]
        rows.append(Row("batch-1", ours, ingest.gate(), peer, round(ratio, 2)))
    return publish("ingest", rows)


if __name__ == "__main__":
    sys.exit(main())
