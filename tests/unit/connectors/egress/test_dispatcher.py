"""Order within a lane, bounds between channels, and what happens between memory and table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from lily_common.crypto import SecretBox
from lily_connectors.contract import HttpRequest, OutboundNotice, Outcome, Ports
from lily_connectors.egress.book import Book, Subscriber
from lily_connectors.egress.digests import lane_key
from lily_connectors.egress.dispatcher import TENANT_CONCURRENCY, Dispatcher
from lily_connectors.egress.jobs import Job, Mode, Result, Status
from lily_connectors.egress.matching import compile_filters
from lily_connectors.egress.retry import RetryPolicy
from lily_connectors.egress.sealing import seal
from lily_connectors.sinks.webhook import WebhookConfig

BOX = SecretBox(bytes(32))


@dataclass
class Wire:
    """Stands in for the HTTP port: answers from a script by body, else 200; remembers the order."""

    sent: list[bytes] = field(default_factory=list)
    answers: dict[bytes, list[Outcome]] = field(default_factory=dict)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    at_once: int = 0
    most_at_once: int = 0

    async def post(self, request: HttpRequest, *, within: float) -> Outcome:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.sent.append(request.body)
        try:
            gate = self.gates.get(request.url)
            if gate is not None:
                await gate.wait()
            else:
                await asyncio.sleep(0)
        finally:
            self.at_once -= 1
        script = self.answers.get(request.body)
        return script.pop(0) if script else Outcome(True, 200)


@dataclass
class Records:
    """Stands in for the ledger."""

    results: list[Result] = field(default_factory=list)
    released: list[UUID] = field(default_factory=list)
    disabled: list[str] = field(default_factory=list)

    def put(self, result: Result) -> None:
        self.results.append(result)

    def release(self, jobs: Iterable[Job]) -> None:
        self.released += [job.id for job in jobs]

    def disable(self, subscriber: Subscriber, reason: str) -> None:
        self.disabled.append(subscriber.id)


def subscriber(name: str, *, status: str = "active", pauses: tuple[float, ...] = (0.0, 0.0)) -> Subscriber:
    config = WebhookConfig(url=f"https://{name}.example/x")
    return Subscriber(
        id=name,
        tenant="acme",
        kind="webhook",
        managed=False,
        status=status,
        types=frozenset(),
        matches=compile_filters([]),
        retry=RetryPolicy(pauses=pauses),
        timeout=5,
        sealed=seal(BOX, "acme", name, config),
        box=BOX,
    )


def book(*subscribers: Subscriber) -> Book:
    made = Book(BOX)
    made._replace("acme", 1, list(subscribers), [])
    return made


_POSITIONS = iter(range(1_000_000))


def job(subscription: str, asset: str, body: str) -> Job:
    identity = uuid4()
    notice = OutboundNotice(str(identity), "acme", "lily.x", asset, "attached", body.encode())
    return Job(identity, next(_POSITIONS), subscription, lane_key(subscription, asset), notice, None)


@asynccontextmanager
async def dispatching(
    *subscribers: Subscriber, **more: Any
) -> AsyncIterator[tuple[Dispatcher, Wire, Records]]:
    wire, records = Wire(), Records()
    dispatcher = Dispatcher(
        book(*subscribers),
        Ports(wire, None),
        records,
        uniform=lambda _low, high: high,
        **more,  # type: ignore[arg-type]
    )
    yield dispatcher, wire, records
    await dispatcher.stop(1.0)


async def settle(dispatcher: Dispatcher) -> None:
    """Until nothing runs or waits."""
    async with asyncio.timeout(5):
        while dispatcher._tasks or any(lane.timer for lane in dispatcher._lanes.values()):
            await asyncio.sleep(0.001)


async def test_a_lane_is_sent_in_order_and_waits_for_its_retries() -> None:
    async with dispatching(subscriber("a")) as (dispatcher, wire, records):
        wire.answers[b"1"] = [Outcome(False, 500, "answered 500")]
        dispatcher.hand_over([job("a", "x", "1"), job("a", "x", "2"), job("a", "y", "3")])
        await settle(dispatcher)
        assert [body for body in wire.sent if body != b"3"] == [b"1", b"1", b"2"]
        assert wire.sent.index(b"3") < 2, "another asset does not wait"
        assert [result.status for result in records.results if result.job.notice.body == b"1"] == [
            Status.RETRY,
            Status.DELIVERED,
        ]


async def test_attempts_used_up_make_a_dead_letter_and_the_lane_goes_on() -> None:
    async with dispatching(subscriber("a", pauses=(0.0,))) as (dispatcher, wire, records):
        wire.answers[b"1"] = [Outcome(False, 500)] * 2
        dispatcher.hand_over([job("a", "x", "1"), job("a", "x", "2")])
        await settle(dispatcher)
        assert [(r.job.notice.body, r.number, r.status) for r in records.results] == [
            (b"1", 1, Status.RETRY),
            (b"1", 2, Status.DEAD),
            (b"2", 1, Status.DELIVERED),
        ]


async def test_a_slow_receiver_holds_up_its_own_deliveries_only() -> None:
    async with dispatching(subscriber("slow"), subscriber("quick")) as (dispatcher, wire, _):
        gate = wire.gates["https://slow.example/x"] = asyncio.Event()
        dispatcher.hand_over([job("slow", f"asset {n}", f"s{n}") for n in range(100)])
        dispatcher.hand_over([job("quick", f"asset {n}", f"q{n}") for n in range(100)])
        async with asyncio.timeout(5):
            while sum(body.startswith(b"q") for body in wire.sent) < 100:
                await asyncio.sleep(0.001)
        assert sum(body.startswith(b"s") for body in wire.sent) == 16
        gate.set()
        await settle(dispatcher)
        assert len(wire.sent) == 200


async def test_a_tenant_has_a_bound_over_all_its_subscriptions() -> None:
    names = [f"sub{n}" for n in range(20)]
    async with dispatching(*(subscriber(name) for name in names)) as (dispatcher, wire, _):
        for name in names:
            wire.gates[f"https://{name}.example/x"] = asyncio.Event()
        dispatcher.hand_over([job(name, f"asset {n}", f"{name}{n}") for name in names for n in range(20)])
        await asyncio.sleep(0.05)
        assert wire.at_once == TENANT_CONCURRENCY
        for gate in wire.gates.values():
            gate.set()
        await settle(dispatcher)
        assert len(wire.sent) == 400


async def test_gone_disables_and_gives_the_rest_back() -> None:
    async with dispatching(subscriber("a")) as (dispatcher, wire, records):
        wire.answers[b"1"] = [Outcome(False, 410, gone=True)]
        rest = job("a", "x", "2")
        dispatcher.hand_over([job("a", "x", "1"), rest])
        await settle(dispatcher)
        assert records.disabled == ["a"]
        assert records.released == [rest.id]
        assert [result.status for result in records.results] == [Status.GONE]


async def test_a_long_pause_is_waited_for_in_the_table() -> None:
    async with dispatching(subscriber("a", pauses=(3600.0,))) as (dispatcher, wire, records):
        wire.answers[b"1"] = [Outcome(False, 500)]
        rest = job("a", "x", "2")
        dispatcher.hand_over([job("a", "x", "1"), rest])
        await settle(dispatcher)
        assert records.released == [rest.id]
        assert not records.results[0].kept
        assert dispatcher.drained(lane_key("a", "x"))
        assert wire.sent == [b"1"]


async def test_what_was_planned_behind_a_released_lane_goes_to_the_table() -> None:
    paused = subscriber("a", pauses=(3600.0,))
    async with dispatching(paused) as (dispatcher, wire, records):
        wire.answers[b"1"] = [Outcome(False, 500)]
        gate = wire.gates["https://a.example/x"] = asyncio.Event()
        dispatcher.hand_over([job("a", "x", "1")])
        await asyncio.sleep(0.01)
        assert dispatcher.plan(paused, lane_key("a", "x")) is Mode.QUEUE
        gate.set()
        await settle(dispatcher)  # meanwhile the head's pause became long
        late = job("a", "x", "2")
        dispatcher.hand_over([late])
        await settle(dispatcher)
        assert wire.sent == [b"1"]
        assert records.released == [late.id]
        assert dispatcher.plan(paused, lane_key("a", "x")) is Mode.FRESH


async def test_plans() -> None:
    active, paused = subscriber("a"), subscriber("p", status="paused")
    async with dispatching(active, paused, max_held=2) as (dispatcher, wire, records):
        gate = wire.gates["https://a.example/x"] = asyncio.Event()
        lane = lane_key("a", "x")
        assert dispatcher.plan(active, lane) is Mode.FRESH
        assert dispatcher.plan(paused, lane_key("p", "x")) is Mode.HOLD
        dispatcher.hand_over([job("a", "x", "1")])
        assert dispatcher.plan(active, lane) is Mode.QUEUE
        dispatcher.hand_over([job("a", "x", "2")])
        assert dispatcher.plan(active, lane) is Mode.PARK, "no room"
        assert dispatcher.plan(active, lane_key("a", "y")) is Mode.PARK
        dispatcher.forget_plan()
        gate.set()
        await settle(dispatcher)
        assert dispatcher.plan(active, lane) is Mode.PARK, "rows in the table come first"
        dispatcher.forget_plan()
        dispatcher.recorded(records.results)
        assert dispatcher.plan(active, lane) is Mode.FRESH
        assert dispatcher.claimable() == ["a"]


async def test_pausing_gives_back_what_has_not_begun() -> None:
    active = subscriber("a")
    async with dispatching(active) as (dispatcher, wire, records):
        gate = wire.gates["https://a.example/x"] = asyncio.Event()
        rest = [job("a", "x", "2"), job("a", "x", "3")]
        dispatcher.hand_over([job("a", "x", "1"), *rest])
        await asyncio.sleep(0.01)
        dispatcher._book._replace("acme", 2, [subscriber("a", status="paused")], [])
        gate.set()
        await settle(dispatcher)
        assert wire.sent == [b"1"]
        assert records.released == [one.id for one in rest]


async def test_a_sink_that_raises_is_a_failed_attempt() -> None:
    broken = subscriber("a", pauses=())
    broken.sealed = "v1.broken"
    async with dispatching(broken) as (dispatcher, wire, records):
        dispatcher.hand_over([job("a", "x", "1")])
        await settle(dispatcher)
        assert records.results[0].status is Status.DEAD
        assert records.results[0].outcome.error is not None
        assert wire.sent == []


async def test_stop_cuts_off_what_does_not_end_and_counts_it_as_not_made() -> None:
    async with dispatching(subscriber("a")) as (dispatcher, wire, records):
        wire.gates["https://a.example/x"] = asyncio.Event()
        dispatcher.hand_over([job("a", "x", "1")])
        await asyncio.sleep(0.01)
        await dispatcher.stop(0.05)
        assert records.results == []
        assert dispatcher.claimable() == []


async def test_retry_now_ends_the_pause() -> None:
    async with dispatching(subscriber("a", pauses=(20.0,))) as (dispatcher, wire, _):
        wire.answers[b"1"] = [Outcome(False, 500)]
        one = job("a", "x", "1")
        dispatcher.hand_over([one])
        async with asyncio.timeout(5):
            while not any(lane.timer for lane in dispatcher._lanes.values()):
                await asyncio.sleep(0.001)
        dispatcher.retry_now(one.id)
        await settle(dispatcher)
        assert wire.sent == [b"1", b"1"]
