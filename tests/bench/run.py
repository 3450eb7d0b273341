"""One timed run of the latency benchmark: the load, the receiver and the watchers, and what each of them saw."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import orjson
import psycopg

from tests.bench.hops import Trace
from tests.bench.machine import CpuByName, Steal, own_cpu_seconds
from tests.bench.plans import ATTACHED
from tests.bench.watch import LakeWatch, MirrorWatch
from tests.support.journal import Arrival, Request, lines, read_plan, write_plan
from tests.support.load import LoadProcess
from tests.support.receiver import ReceiverProcess
from tests.support.rule import asset_of
from tests.support.stack import Stack, Tenant

CHANGES = "lily.changes.priority"
NOTICES = "lily.notices"
#: How long a run may take to come to rest after its last request, in seconds.
SETTLE = 120.0


@dataclass
class Observed:
    """Everything of one run. Times are nanoseconds since 1970; events are keyed by id, assets by qualified name."""

    due: dict[str, int]
    acked: dict[str, int]
    assets: dict[str, str]
    tags: set[str]
    arrivals: list[Arrival]
    steal: Steal
    #: CPU seconds by component while the load ran; `load and receiver` are ours, `others` is what else ran here.
    cpu: dict[str, float]
    probed: tuple[int, int] = (0, 0)
    mirror: dict[str, int] = field(default_factory=dict)
    lake: dict[str, int] = field(default_factory=dict)
    kafka: dict[str, int] = field(default_factory=dict)
    notices: dict[str, list[int]] = field(default_factory=dict)
    moments: dict[str, tuple[datetime, datetime, datetime]] = field(default_factory=dict)

    def latency(self, seen: dict[str, int], ids: Iterable[str]) -> list[float]:
        """Milliseconds from the intended send time to when the event's asset was seen."""
        assets = self.assets
        return [(seen[assets[i]] - self.due[i]) / 1e6 for i in ids if assets[i] in seen]

    def webhooks(self) -> dict[str, int]:
        first: dict[str, int] = {}
        for arrival in self.arrivals:
            first.setdefault(arrival.body["id"], arrival.at)
        return first

    def copies(self) -> Counter[str]:
        return Counter(arrival.body["id"] for arrival in self.arrivals)

    def traces(self) -> list[Trace]:
        """One for every tag event of which each moment is known."""
        accepted = {arrival.body["id"]: arrival.body["acceptedtime"] for arrival in self.arrivals}
        traces = []
        for event_id, webhook in self.webhooks().items():
            if event_id not in self.moments or event_id not in self.notices or event_id not in self.kafka:
                continue
            consumed, committed, sent = (moment.timestamp() * 1000 for moment in self.moments[event_id])
            stamp = datetime.fromisoformat(accepted[event_id]).timestamp() * 1000
            traces.append(
                Trace(
                    due=self.due[event_id] / 1e6,
                    accepted=stamp,
                    kafka=self.kafka[event_id],
                    notice=min(self.notices[event_id]),
                    consumed=consumed,
                    committed=committed,
                    sent=sent,
                    webhook=webhook / 1e6,
                )
            )
        return traces


class Runner:
    """Makes runs on one stack, in one folder; the tenant and its subscription are made anew for each."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self._count = 0

    def run(
        self,
        requests: Iterable[Request],
        tenant: Tenant,
        *,
        stores: bool,
        probe: Callable[[], int] = lambda: 0,
    ) -> Observed:
        """Send the plan and wait until all of it has arrived, or SETTLE seconds have passed.

        `probe` is asked when the load begins and when its last request is answered.
        """
        self._count += 1
        plan, journal = self._folder / f"plan-{self._count}", self._folder / f"load-{self._count}"
        write_plan(plan, requests)
        planned = read_plan(plan)
        events = [event for request in planned for event in request.events]
        tags = {event["id"] for event in events if event["type"] == ATTACHED}
        starts = {topic: self._stack.log.ends(topic) for topic in (CHANGES, NOTICES)}
        with ExitStack() as closing:
            receiver = closing.enter_context(ReceiverProcess(self._folder / f"arrivals-{self._count}"))
            tenant.subscribe("bench", receiver, types=[ATTACHED])
            mirror, lake = self._watchers(tenant, closing) if stores else (None, None)
            cpu = CpuByName(self._stack.pids())
            begun = probe()
            cpu.start()
            own = own_cpu_seconds()
            with Steal() as steal, self._load(plan, journal, tenant) as load:
                load.wait(600)
            used = cpu.seconds()
            # The stack runs under this process too.
            used["load and receiver"] = round(own_cpu_seconds() - own - sum(used.values()), 2)
            used["others"] = round(max(0.0, steal.busy - sum(used.values())), 2)
            probed = (begun, probe())
            assets = {asset_of(event) for event in events}
            self._settle(
                lambda: len({a.body["id"] for a in receiver.arrivals(tenant.path("bench"))}) >= len(tags)
            )
            if mirror is not None:
                watch = mirror
                self._settle(lambda: len(watch.seen.keys() & assets) >= len(assets))
                self._settle(lambda: len(self._stack.lake.silver(tenant.id)) >= len(assets), pause=2)
            arrivals = receiver.arrivals(tenant.path("bench"))
        due, acked = self._read_journal(planned, journal)
        names = {event["id"]: asset_of(event) for event in events}
        observed = Observed(due, acked, names, tags & acked.keys(), arrivals, steal, used, probed)
        if mirror is not None and lake is not None:
            observed.mirror, observed.lake = mirror.seen, lake.assets(tenant.id)
        self._read_topics(observed, starts)
        observed.moments = self._read_deliveries(tenant.id)
        return observed

    def _watchers(self, tenant: Tenant, closing: ExitStack) -> tuple[MirrorWatch, LakeWatch]:
        environment = self._stack.environment
        database = environment.get("LILY_MONGO_DATABASE", "lily")
        mirror = MirrorWatch(environment["MONGO_URI"], database, tenant.id)
        lake = LakeWatch(self._stack.lake, environment["LAKE_URI"])
        closing.enter_context(mirror)
        closing.enter_context(lake)
        return mirror, lake

    def _load(self, plan: Path, journal: Path, tenant: Tenant) -> LoadProcess:
        return LoadProcess(self._stack.url, plan, journal, {tenant.id: tenant.key})

    def _settle(self, done: Callable[[], bool], pause: float = 0.2) -> None:
        """Wait for `done`; when it never is, the gate will say what is missing."""
        deadline = time.monotonic() + SETTLE
        while not done() and time.monotonic() < deadline:
            time.sleep(pause)

    def _read_journal(self, planned: list[Request], journal: Path) -> tuple[dict[str, int], dict[str, int]]:
        """Event id -> when it was due, and when it was answered as accepted."""
        start = 0
        acked: dict[str, int] = {}
        for line in lines(journal):
            if "start" in line:
                start = line["start"]
            elif "acked" in line:
                for position in line["n"]:
                    acked[planned[line["acked"]].events[position]["id"]] = line["at"]
        due = {event["id"]: start + int(request.due * 1e9) for request in planned for event in request.events}
        return due, acked

    def _read_topics(self, observed: Observed, starts: dict[str, dict[int, int]]) -> None:
        for topic in (CHANGES, NOTICES):
            for message in self._stack.log.read(topic, starts[topic]):
                event_id = orjson.loads(message.value() or b"{}").get("id")
                if event_id not in observed.tags:
                    continue
                moment = message.timestamp()[1]
                if topic == CHANGES:
                    observed.kafka.setdefault(event_id, moment)
                else:
                    observed.notices.setdefault(event_id, []).append(moment)

    def _read_deliveries(self, tenant: str) -> dict[str, tuple[datetime, datetime, datetime]]:
        """Event id -> (consumed, committed, first sent) of its webhook, from egress's own rows."""
        query = """
            SELECT n.event_id, n.consumed_at, d.committed_at, d.first_sent_at
            FROM deliveries d JOIN notices n ON n.id = d.notice_id JOIN subscriptions s ON s.id = d.subscription_id
            WHERE d.tenant = %s AND s.kind = 'webhook' AND d.committed_at IS NOT NULL
              AND d.first_sent_at IS NOT NULL AND n.consumed_at IS NOT NULL
        """
        with psycopg.connect(self._stack.environment["POSTGRES_URI"]) as connection:
            rows = connection.execute(query, (tenant,)).fetchall()
        return {event_id: (consumed, committed, sent) for event_id, consumed, committed, sent in rows}
