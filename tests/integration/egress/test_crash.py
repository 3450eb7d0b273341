"""No crash loses a notice: killed processes, lost connections, a second worker, and the gap between commit and offset."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.integration.egress.conftest import ControlPlane
from tests.integration.egress.support import Tenant
from tests.support.egress import EgressProcess, accepted, notify, tag
from tests.support.poll import until
from tests.support.receiver import ReceiverProcess
from tests.support.stack import Stack

from lily_common.crypto import SecretBox
from lily_connectors.contract import HttpRequest, Outcome, Ports
from lily_connectors.egress.book import Book
from lily_connectors.egress.claims import Claims
from lily_connectors.egress.connections import connect, open_session
from lily_connectors.egress.dispatcher import Dispatcher
from lily_connectors.egress.jobs import Job, Result
from lily_connectors.egress.judge import Judge
from lily_connectors.egress.notices import Notice, read

ASSETS = 30


@pytest.fixture
def tenant(servers: Stack, control: ControlPlane, receiver: ReceiverProcess) -> Tenant:
    return Tenant(servers, control, receiver)


@pytest.fixture
def workers(egress_environment: dict[str, str], tmp_path: Path) -> Iterator[list[EgressProcess]]:
    """Two workers, not started."""
    made = [EgressProcess(egress_environment, tmp_path / f"log{n}") for n in range(2)]
    yield made
    for worker in made:
        print(worker.log_tail())  # shown when the test fails
    for worker in made:
        if worker.process is not None and worker.process.poll() is None:
            worker.stop()


def toggles(turns: int) -> list[dict[str, Any]]:
    """Each asset's tag attached and detached in turn: every event is a transition."""
    return [
        tag(f"postgres://db/{asset}", "PII", attached=turn % 2 == 0)
        for turn in range(turns)
        for asset in range(ASSETS)
    ]


def check_all_told_in_order(tenant: Tenant, hook: str, events: Sequence[dict[str, Any]]) -> None:
    """Every event arrived, each under one id; the first arrivals of an asset's events are in order."""
    arrivals = [arrival for arrival in tenant.arrivals(hook) if arrival.status < 300]
    ids: dict[str, set[str]] = {}
    firsts: dict[str, list[str]] = {}
    for arrival in arrivals:
        event_id = arrival.body["id"]
        if event_id not in ids:
            firsts.setdefault(arrival.body["subject"], []).append(event_id)
        ids.setdefault(event_id, set()).add(arrival.headers["webhook-id"])
    assert all(arrival.valid for arrival in arrivals)
    assert set(ids) == {event["id"] for event in events}
    assert all(len(names) == 1 for names in ids.values())
    for asset in range(ASSETS):
        name = f"postgres://db/{asset}"
        assert firsts[name] == [event["id"] for event in events if event["data"]["qualified_name"] == name]


def arrived(tenant: Tenant, hook: str) -> int:
    return len({arrival.body["id"] for arrival in tenant.arrivals(hook) if arrival.status < 300})


def test_killed_at_random_moments_under_load(tenant: Tenant, workers: list[EgressProcess]) -> None:
    worker = workers[0]
    tenant.subscribe("hook", retry={"pauses": [0.2] * 10})
    dice = random.Random(7)
    worker.start()
    events: list[dict[str, Any]] = []
    for turn in range(4):
        batch = toggles(6)
        events += batch
        tenant.receiver.tell(f"{tenant.name}-hook", fail=5)
        tenant.notify(*batch)
        goal = arrived(tenant, "hook") + dice.randrange(1, len(batch) - 20)
        until(lambda goal=goal: arrived(tenant, "hook") >= goal, f"turn {turn}", pause=0.005)
        worker.kill()
        worker.start()
    until(lambda: arrived(tenant, "hook") == len(events), "all to arrive")
    check_all_told_in_order(tenant, "hook", events)
    assert worker.stop() == 0


def test_lost_connections_lose_nothing(tenant: Tenant, workers: list[EgressProcess]) -> None:
    worker = workers[0]
    tenant.subscribe("hook")
    worker.start()
    events = toggles(10)
    uri = tenant.servers.environment["POSTGRES_URI"]
    with psycopg.connect(uri, autocommit=True) as connection:
        for start in range(0, len(events), 60):
            tenant.notify(*events[start : start + 60])
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name IN "
                "('lily-egress judge', 'lily-egress ledger', 'lily-egress claims', 'lily-egress upkeep')"
            )
    until(lambda: arrived(tenant, "hook") == len(events), "all to arrive")
    check_all_told_in_order(tenant, "hook", events)
    assert worker.process is not None
    assert worker.process.poll() is None, "it waited for PostgreSQL by itself"


def test_a_worker_whose_session_ends_gives_way(tenant: Tenant, workers: list[EgressProcess]) -> None:
    """Without its session it does not own its deliveries any more: it ends, for its supervisor to start another."""
    worker = workers[0]
    worker.start()
    with psycopg.connect(tenant.servers.environment["POSTGRES_URI"], autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lily-egress session'"
        )
    assert worker.process is not None
    assert worker.process.wait(30) == 1


def test_two_workers_share_and_one_takes_over(tenant: Tenant, workers: list[EgressProcess]) -> None:
    first, second = workers
    tenant.subscribe("hook", retry={"pauses": [0.3] * 10})
    first.start()
    events = toggles(12)
    tenant.receiver.tell(f"{tenant.name}-hook", fail=10)
    tenant.notify(*events[:120])
    second.start()
    tenant.notify(*events[120:240])
    until(lambda: arrived(tenant, "hook") >= 130, pause=0.01)
    first.kill()
    tenant.notify(*events[240:])
    until(lambda: arrived(tenant, "hook") == len(events), "all to arrive")
    check_all_told_in_order(tenant, "hook", events)


class NoWire:
    """Receivers that cannot be reached: everything stays as the table has it."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def post(self, request: HttpRequest, *, within: float) -> Outcome:
        self.sent.append(request.headers["webhook-id"])
        return Outcome(True, 200)


class NoLedger:
    """The process dies before anything is recorded."""

    def put(self, result: Result) -> None: ...

    def release(self, jobs: Iterable[Job]) -> None: ...

    def disable(self, subscriber: object, reason: str) -> None: ...


async def test_crash_between_commit_and_offset_repeats_the_batch_and_makes_nothing_twice(
    tenant: Tenant, control: ControlPlane
) -> None:
    subscription = tenant.subscribe("hook")
    settings = control.settings
    uri = settings.postgres_uri.get_secret_value()
    events = [
        tag("postgres://db/x", "PII"),
        tag("postgres://db/x", "PII", attached=False),
        tag("postgres://db/y", "PII"),
    ]
    batch = [read(one.value, 1, datetime.now(UTC)) for one in accepted(tenant.name, events)]

    async def live(batch: list[Notice]) -> tuple[int, list[str], Any]:
        """One life of a worker, up to the commit: (deliveries made, what it sent, its session)."""
        session, owner = await open_session(uri)
        book = Book(SecretBox(settings.master_key_bytes))
        await book.load(session)
        wire = NoWire()
        dispatcher = Dispatcher(book, Ports(wire, None), NoLedger())  # type: ignore[arg-type]
        async with await connect(uri, "test") as connection:
            made = await Judge(book, dispatcher, owner, "https://lily.test").judge(connection, batch, [0])
        await dispatcher.stop(0)
        return made, wire.sent, session

    made, _, session = await live(batch)
    assert made == 6, "a webhook and the tenant's topic for each"
    await session.close()  # the process is killed: the offset was not committed
    made, _, session = await live(batch)
    assert made == 0, "the second life reads the batch again and finds it seen"
    rows = tenant.deliveries(subscription=subscription["id"])
    assert [row["status"] for row in rows] == ["pending"] * 3
    third, owner = await open_session(uri)
    await session.close()
    async with await connect(uri, "test", autocommit=True) as connection, asyncio.timeout(20):
        while not (jobs := await Claims(owner).claim(connection, [subscription["id"]])):
            await asyncio.sleep(0.05)
    assert [job.notice.transition for job in jobs] == ["attached", "detached", "attached"]
    assert {str(job.id) for job in jobs} == {row["id"] for row in rows}
    await third.close()


async def test_what_a_living_worker_owns_is_not_claimed(tenant: Tenant, control: ControlPlane) -> None:
    subscription = tenant.subscribe("hook")
    uri = control.settings.postgres_uri.get_secret_value()
    session, owner = await open_session(uri)
    book = Book(SecretBox(control.settings.master_key_bytes))
    await book.load(session)
    dispatcher = Dispatcher(book, Ports(NoWire(), None), NoLedger())  # type: ignore[arg-type]
    batch = [
        read(one.value, 1, datetime.now(UTC))
        for one in accepted(tenant.name, [tag("postgres://db/x", "PII")])
    ]
    async with await connect(uri, "test") as connection:
        await Judge(book, dispatcher, owner, "https://lily.test").judge(connection, batch, [0])
    other, number = await open_session(uri)
    async with await connect(uri, "test", autocommit=True) as connection:
        assert await Claims(number).claim(connection, [subscription["id"]]) == []
        await session.close()
        async with asyncio.timeout(20):  # the server ends the session in its own time
            while not (claimed := await Claims(number).claim(connection, [subscription["id"]])):
                await asyncio.sleep(0.05)
    assert len(claimed) == 1
    await other.close()
    await dispatcher.stop(0)


def test_notices_written_while_no_worker_runs_are_delivered(
    tenant: Tenant, workers: list[EgressProcess]
) -> None:
    tenant.subscribe("hook")
    events = toggles(2)
    notify(tenant.bootstrap, tenant.name, events)
    workers[0].start()
    until(lambda: arrived(tenant, "hook") == len(events))
    check_all_told_in_order(tenant, "hook", events)
