"""From the tag's POST sent to the last derived tag told, in graphs of real estates' size.

The graph around what is measured is bulk-written into silver before: layers of assets whose fan-out is a power law, most
with one or two downstreams, some with hundreds. `depth-N` is a chain of N edges, `descendants-10000` a root with a tree
of ten thousand below it, `size-…` a chain of five in graphs of 10 thousand, 100 thousand and a million assets: the peer
of the larger ones is the smallest, and a ratio of 1 says that the graph's size costs nothing. What the bulk write gives
the lake job to do (merging files, computing the built-in tables anew) is waited for, and cases are measured in turn.
`detach-…` takes the same tags back. What counts is the arrival on the tenant's own topic, behind egress.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa
from confluent_kafka import Consumer
from pyspark.sql import SparkSession

from lily_common import events as ev
from lily_common.envelope import state_version
from lily_common.events import tenant_events_topic
from lily_common.gold.builtin import builtin
from lily_common.kafka import consumer_config
from lily_local import jars
from lily_spark import layered, session
from lily_spark.config import SparkSettings
from lily_spark.tables import ASSETS
from lily_spark.transforms.frames import spark_frame
from tests.bench.machine import Steal, cpu_seconds
from tests.bench.result import Gate, Row, percentiles, publish, save
from tests.support.commands import command
from tests.support.poll import until
from tests.support.spark import end
from tests.support.stack import Stack, running_stack
from tests.support.tenant import Tenant, event

ROOT = "postgres://estate/warehouse"
EDGES_PER_ASSET = 5
RULE = {"classifications": ["PII"], "along": ["table", "column"], "max_depth": 50}
_CHUNK = 1_000_000
_TOLD_SECONDS = 180.0
_SETTLE_SECONDS = 1_800.0
#: The lake job rests when it uses less than this share of a core in each of so many looks, so many seconds each.
_IDLE, _QUIET_LOOKS, _LOOK_SECONDS = 0.4, 4, 5.0


@dataclass(frozen=True)
class Shape:
    """What is tagged, and what then bears the tag by propagation."""

    name: str
    root: str
    below: list[str]
    edges: list[tuple[str, str]]


def chain(name: str, length: int) -> Shape:
    names = [f"{ROOT}/{name}/a{number}" for number in range(length + 1)]
    return Shape(name, names[0], names[1:], list(itertools.pairwise(names)))


def tree(name: str, size: int, fan_out: int = 10) -> Shape:
    """`size` assets below the root, `fan_out` below each."""
    names = [f"{ROOT}/{name}/a{number}" for number in range(size + 1)]
    edges = [(names[(number - 1) // fan_out], names[number]) for number in range(1, size + 1)]
    return Shape(name, names[0], names[1:], edges)


def background(assets: int, seed: int = 7) -> Iterator[tuple[str, str]]:
    """Edges of an estate: each asset's upstreams are in earlier ones, the popular ones more often than the others."""
    chance = random.Random(seed)
    for number in range(1, assets):
        for _ in range(EDGES_PER_ASSET):
            # A power law: the square of an even choice prefers the early ones, which become the hubs.
            up = int(number * chance.random() ** 2)
            yield f"{ROOT}/bg/a{up}", f"{ROOT}/bg/a{number}"


class Estate:
    """A tenant whose graph stands in silver by bulk."""

    def __init__(self, stack: Stack, spark: SparkSession, settings: SparkSettings) -> None:
        self.tenant: Tenant = stack.new_tenant()
        self._stack, self._spark, self._settings = stack, spark, settings
        self._written = 0

    def fill(self, assets: int, shapes: Sequence[Shape]) -> float:
        """Write the graph and declare the rule; returns the seconds until the rule holds."""
        self._write(_edges(assets, shapes))
        probe = chain("probe", 1)
        self._write(iter(probe.edges))
        started = time.perf_counter()
        answer = self.tenant.client.put("/v1/propagation/rules/pii", json=RULE)
        answer.raise_for_status()
        self.measure(probe, attach=True, seconds=1_800)
        taken = time.perf_counter() - started
        self.measure(probe, attach=False)
        return taken

    def _write(self, edges: Iterator[tuple[str, str]]) -> None:
        silver = layered.assets(self._settings)
        rows: list[tuple[str, str]] = []
        for edge in edges:
            rows.append(edge)
            if len(rows) == _CHUNK:
                self._append(silver, rows)
                rows = []
        if rows:
            self._append(silver, rows)

    def _append(self, silver: layered.Layered, edges: list[tuple[str, str]]) -> None:
        """One commit to the primary layer: an asset's register for each one named as downstream, and its edges."""
        now = datetime.now(UTC)
        count = len(edges)
        ids = [f"e{self._written + number}" for number in range(count)]
        self._written += count
        table = pa.table(
            {
                "tenant": [self.tenant.id] * count,
                "subject": [down for _up, down in edges],
                "register": [f"edge|{up}|" for up, _down in edges],
                "type": [ev.EDGE_ADDED] * count,
                "version": [state_version(now, 0, "/bench", name) for name in ids],
                "data": [
                    orjson.dumps({"upstream": up, "downstream": down, "kind": "table"}).decode()
                    for up, down in edges
                ],
                "event_id": ids,
                "source": ["/bench"] * count,
                "time": [now] * count,
                "accepted_time": [now] * count,
            },
            schema=pa.schema([field for field in ASSETS.schema if field.name not in ("layer", "bucket")]),
        )
        silver.placed(spark_frame(self._spark, table)).write.format("delta").mode("append").save(
            ASSETS.uri(self._settings)
        )

    def measure(self, shape: Shape, *, attach: bool, seconds: float = _TOLD_SECONDS) -> tuple[float, int]:
        """(milliseconds from the POST sent to the last derived tag told, how many of them were told)."""
        wanted = set(shape.below)
        kind = "classification.attached" if attach else "classification.detached"
        with Follower(self._stack, self.tenant.id) as follower:
            sent = time.perf_counter()
            self.tenant.send(event(kind, {"qualified_name": shape.root, "tag": "PII"}))
            told = follower.wait(f"lily.{kind}", wanted, sent + seconds)
        return (max(told.values(), default=sent) - sent) * 1000, len(told)


class Follower:
    """The tenant's own topic, from its end on."""

    def __init__(self, stack: Stack, tenant: str) -> None:
        self._stack, self._topic = stack, tenant_events_topic(tenant)
        self._consumer = Consumer(
            consumer_config(
                stack.environment["KAFKA_BOOTSTRAP"], f"bench-{tenant}", **{"fetch.wait.max.ms": 5}
            )
        )

    def __enter__(self) -> Follower:
        from confluent_kafka import TopicPartition

        known = self._consumer.list_topics(timeout=10).topics
        # Made when the tenant's first change is told: everything in it is then still to come.
        ends = self._stack.log.ends(self._topic) if self._topic in known else {}
        self._consumer.assign([TopicPartition(self._topic, number, end) for number, end in ends.items()])
        self._assigned = bool(ends)
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def wait(self, kind: str, wanted: set[str], deadline: float) -> dict[str, float]:
        """Asset -> when it was told, by `time.perf_counter`; those that were when the deadline passed."""
        from confluent_kafka import TopicPartition

        told: dict[str, float] = {}
        while wanted - told.keys() and time.perf_counter() < deadline:
            if not self._assigned:
                described = self._consumer.list_topics(timeout=10).topics.get(self._topic)
                if described is None or described.error is not None:
                    time.sleep(0.05)
                    continue
                self._consumer.assign(
                    [TopicPartition(self._topic, number, 0) for number in described.partitions]
                )
                self._assigned = True
            for message in self._consumer.consume(500, 0.05):
                if message.error() is not None:
                    continue
                at = time.perf_counter()
                body = orjson.loads(message.value() or b"{}")
                if body["type"] == kind and body["subject"] in wanted:
                    told.setdefault(body["subject"], at)
        return told


def _edges(assets: int, shapes: Sequence[Shape]) -> Iterator[tuple[str, str]]:
    yield from background(assets)
    for shape in shapes:
        yield from shape.edges


@dataclass(frozen=True)
class Case:
    """A shape in an estate; `beside` is told with its figures."""

    name: str
    estate: Estate
    shape: Shape
    beside: dict[str, Any]


def rows(cases: Sequence[Case], times: int) -> Iterator[Row]:
    """`case` and `detach-case` of each: attached and taken back so many times, in turn, so that all meet the same."""
    taken: dict[tuple[str, bool], list[float]] = {}
    lost: Counter[tuple[str, bool]] = Counter()
    with Steal() as steal:
        for _, case, attach in itertools.product(range(times), cases, (True, False)):
            milliseconds, told = case.estate.measure(case.shape, attach=attach)
            taken.setdefault((case.name, attach), []).append(milliseconds)
            lost[case.name, attach] += len(case.shape.below) - told
    for case, (attach, prefix) in itertools.product(cases, ((True, ""), (False, "detach-"))):
        key, derived = (case.name, attach), len(case.shape.below)
        figures = {**percentiles(taken[key]), "times": times, "derived": derived, **case.beside}
        gate = Gate(times * derived, times * derived - lost[key], lost[key], 0)
        yield Row(prefix + case.name, {**figures, "steal_percent": steal.percent, "noisy": steal.noisy}, gate)


def measured(
    stack: Stack, spark: SparkSession, settings: SparkSettings, wanted: set[str], scale: float
) -> Iterator[Row]:
    def estate(assets: int, shapes: Sequence[Shape]) -> tuple[Estate, dict[str, Any]]:
        made = Estate(stack, spark, settings)
        seconds = made.fill(assets, shapes)
        return made, {"assets": assets, "edges": EDGES_PER_ASSET * assets, "load_seconds": round(seconds, 1)}

    if "depth" in wanted or "descendants" in wanted:
        chains = [chain(f"depth-{depth}", depth) for depth in (1, 5, 20)]
        wide = tree("wide", int(10_000 * scale))
        held, beside = estate(int(100_000 * scale), [*chains, wide])
        _settled(stack, held.tenant)
        if "depth" in wanted:
            yield from rows([Case(shape.name, held, shape, beside) for shape in chains], 20)
        if "descendants" in wanted:
            yield from rows([Case("descendants-10000", held, wide, beside)], 5)
    if "size" in wanted:
        five = chain("size", 5)
        cases = []
        for name, assets in (("10k", 10_000), ("100k", 100_000), ("1m", 1_000_000)):
            held, beside = estate(int(assets * scale), [five])
            cases.append(Case(f"size-{name}", held, five, beside))
            print(f"{cases[-1].name} is written: {beside}", flush=True)
        _settled(stack, held.tenant)
        smallest: dict[str, Row] = {}
        for row in rows(cases, 10):
            yield _beside_smallest(row, smallest)


def _settled(stack: Stack, tenant: Tenant) -> None:
    """Return once the lake job is done with what the bulk write gives it: built-in tables computed anew, files merged."""
    for table in builtin():
        done = command(tenant, "refresh_table", table=table, seconds=_SETTLE_SECONDS)
        assert done["status"] == "succeeded", done
    pid, quiet = stack.pid("lake"), 0
    deadline = time.monotonic() + _SETTLE_SECONDS
    while quiet < _QUIET_LOOKS:
        if time.monotonic() > deadline:
            raise TimeoutError("the lake job is still at work on the bulk write")
        before = cpu_seconds([pid])
        time.sleep(_LOOK_SECONDS)
        quiet = quiet + 1 if cpu_seconds([pid]) - before < _IDLE * _LOOK_SECONDS else 0
    print("settled", flush=True)


def _beside_smallest(row: Row, smallest: dict[str, Row]) -> Row:
    """The row with the same case's smallest graph as its peer; the first of each becomes it."""
    kind = row.case.rpartition("-")[0]
    peer = smallest.setdefault(kind, row)
    if peer is not row:
        row.peer = {name: peer.ours[name] for name in ("p50", "p99", "assets")}
        row.ratio = round(peer.ours["p50"] / row.ours["p50"], 2)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.propagation")
    cases = ["depth", "descendants", "size"]
    parser.add_argument("--only", nargs="*", choices=cases, default=cases)
    parser.add_argument("--scale", type=float, default=1.0, help="Share of the full sizes, for a trial")
    arguments = parser.parse_args()
    found: list[Row] = []
    partly = set(arguments.only) != set(cases)
    with running_stack() as stack:
        settings = SparkSettings.model_validate({**stack.environment, "LILY_SPARK_JARS": jars.paths("spark")})
        spark = session.build(settings, session.App("bench-propagation", heap="2g", slots=2, lake=True))
        try:
            until(lambda: stack.lake.table("silver/assets").version() >= 0, "silver.assets")
            for row in measured(stack, spark, settings, set(arguments.only), arguments.scale):
                found.append(row)
                save("propagation", found, others=partly)
                print(f"{row.case}: {row.ours}", flush=True)
        finally:
            end(spark)
    return publish("propagation", found, others=partly)


if __name__ == "__main__":
    sys.exit(main())
