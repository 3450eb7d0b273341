"""The embedded stack for tests marked `stack`: one for the whole session, on free ports, with data of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.databases import Database, Sources, new_database, with_connect
from tests.support.receiver import ReceiverProcess
from tests.support.stack import Stack, running_stack
from tests.support.tenant import Tenant

_STACK = pytest.StashKey[Stack]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The whole stack starts once and stays: who does without it goes first, and who adds Connect to it last."""

    def needs(item: pytest.Item) -> int:
        info = getattr(item, "_fixtureinfo", None)
        known = info.name2fixturedefs if info else {}
        # Some have a stack of their own under the same name.
        return sum(name in known and known[name][-1].baseid == "tests" for name in ("stack", "worker"))

    items.sort(key=needs)


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    """Everything up and ready. Compaction runs all the time, so that every test races with it."""
    os.environ.setdefault("LILY_COMPACT_SECONDS", "10")
    os.environ.setdefault("LILY_CAPTURE_LOOK_SECONDS", "5")
    with running_stack() as running:
        request.config.stash[_STACK] = running
        yield running


@pytest.fixture(scope="module")
def tenant(stack: Stack) -> Tenant:
    """The module's own tenant A."""
    return stack.new_tenant()


@pytest.fixture(scope="module")
def other(stack: Stack) -> Tenant:
    """The module's own tenant B."""
    return stack.new_tenant()


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReceiverProcess]:
    """A webhook receiver in its own process."""
    with ReceiverProcess(tmp_path_factory.mktemp("receiver") / "arrivals") as running:
        yield running


@pytest.fixture(scope="session")
def worker(stack: Stack) -> Stack:
    """The stack with Kafka Connect in it, which does not start by itself."""
    return with_connect(stack)


@pytest.fixture
def sources(worker: Stack) -> Iterator[Sources]:
    """Those of a new tenant; removed afterwards."""
    made = Sources(worker, worker.new_tenant())
    yield made
    made.close()


@pytest.fixture
def database(worker: Stack, sources: Sources) -> Iterator[Database]:
    """A PostgreSQL database that `sources` may read; gone afterwards."""
    with new_database(worker, sources) as made:
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """A failed test shows the end of each component's log."""
    report = yield
    running = item.config.stash.get(_STACK, None)
    if report.failed and running is not None and "stack" in getattr(item, "fixturenames", ()):
        for name, tail in running.log_tails().items():
            report.sections.append((f"log of {name}", tail))
    return report
