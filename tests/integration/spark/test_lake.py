"""The lake job on real servers: each identity once and the right state, whatever dies and whatever comes twice."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.integration.spark.changes import Changes, mixture, tag, upsert
from tests.integration.spark.process import JobProcess
from tests.support.poll import until
from tests.support.stack import Stack

from lily_common.events import DLQ_CHANGES_TOPIC, PRIORITY_TOPIC
from lily_common.kafka import header

pytestmark = pytest.mark.stack


@pytest.fixture
def changes(servers: Stack, request: pytest.FixtureRequest) -> Changes:
    """A tenant per test."""
    name = request.node.name.removeprefix("test_").replace("_", "-")[:30].strip("-")
    return Changes(servers.environment["KAFKA_BOOTSTRAP"], name)


def _settled(servers: Stack, changes: Changes) -> Callable[[], bool]:
    """Bronze holds as many rows as identities were sent, and silver as many registers as they make."""
    registers = sum(len(registers) for registers in changes.sent.state().values())

    def look() -> bool:
        held = servers.lake.rows("bronze/events", changes.tenant, ["id"])
        silver = servers.lake.silver(changes.tenant)
        return len(held) >= len(changes.sent.first) and sum(map(len, silver.values())) >= registers

    return look


def _check(servers: Stack, changes: Changes) -> None:
    """Wait for what was sent, then compare bronze and silver with it exactly."""
    until(_settled(servers, changes), "the lake to hold what was sent", deadline=90)
    bronze = servers.lake.bronze(changes.tenant)
    assert {(identity.source, identity.id) for identity in bronze} == set(changes.sent.first)
    assert {identity: len(rows) for identity, rows in bronze.items() if len(rows) != 1} == {}
    assert {(identity.source, identity.id): rows[0] for identity, rows in bronze.items()} == {
        key: envelope["data"] for key, envelope in changes.sent.first.items()
    }
    until(
        lambda: _plain(servers.lake.silver(changes.tenant)) == _plain(changes.sent.state()),
        "silver to be what the events make",
        deadline=30,
    )


def _plain(state: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, tuple[str, str, Any]]]:
    return {
        asset: {key: (reg.type, reg.version, dict(reg.data)) for key, reg in registers.items()}
        for asset, registers in state.items()
        if registers
    }


def test_repeats_and_conflicts_are_dropped_and_counted(
    servers: Stack, lake: JobProcess, changes: Changes
) -> None:
    repeats = lake.metric("lily_stream_repeats_total", query="events")
    conflicts = lake.metric("lily_stream_conflicts_total", query="events")
    first = upsert("one", "pg://db/a", "first")
    changes.send(first)
    changes.send(
        first, upsert("one", "pg://db/a", "another body"), upsert("two", "pg://db/a", "newer", minute=1)
    )
    _check(servers, changes)
    changes.send(first)
    until(
        lambda: (
            lake.metric("lily_stream_repeats_total", query="events") >= repeats + 2
            and lake.metric("lily_stream_conflicts_total", query="events") >= conflicts + 1
        ),
        "repeats and conflicts to be counted",
    )
    _check(servers, changes)


def test_an_old_event_is_never_too_late(servers: Stack, lake: JobProcess, changes: Changes) -> None:
    changes.send(tag("new", "pg://db/late", "PII", minute=500_000))
    _check(servers, changes)
    changes.send({**tag("old", "pg://db/late", "GDPR"), "time": "1970-01-02T00:00:00Z"})
    _check(servers, changes)


def test_what_cannot_be_read_goes_to_the_dead_letters(
    servers: Stack, lake: JobProcess, changes: Changes
) -> None:
    start = servers.log.ends(DLQ_CHANGES_TOPIC)
    restarts = lake.metric("lily_stream_restarts_total")
    mirrored = lake.metric("lily_stream_rows_total", query="mirror-priority")
    for value in (b"no json", b'{"id": "x"}', b"\xff\xfe\x00", None):
        changes.send_raw(PRIORITY_TOPIC, value, b"key of " + changes.tenant.encode())
    changes.send(tag("fine", "pg://db/dlq", "PII"))
    _check(servers, changes)
    letters = list(servers.log.read(DLQ_CHANGES_TOPIC, start))
    reasons = [header(letter.headers(), "reason") for letter in letters]
    assert sorted(reason or b"" for reason in reasons) == [
        b"no value",
        b"not a JSON object",
        b"not a JSON object",
        b"tenantid is missing",
    ]
    assert b"no json" in {letter.value() for letter in letters}
    until(
        lambda: lake.metric("lily_stream_rows_total", query="mirror-priority") >= mirrored + 5,
        "the mirror to have read them too",
    )
    assert lake.metric("lily_stream_restarts_total") == restarts


def test_kill_9_at_any_moment_loses_and_doubles_nothing(
    servers: Stack, lake: JobProcess, changes: Changes
) -> None:
    events = list(mixture(seed=7, count=1500, assets=40))
    sender = threading.Thread(target=_send_slowly, args=(changes, events))
    sender.start()
    chance = random.Random(11)
    for _ in range(4):
        time.sleep(chance.uniform(0.5, 4))
        lake.kill()
        lake.start()
    sender.join()
    _check(servers, changes)


def _send_slowly(changes: Changes, events: list[dict[str, Any]]) -> None:
    for start in range(0, len(events), 10):
        changes.send(*events[start : start + 10])
        time.sleep(0.25)


@pytest.mark.parametrize("lost", ["everything", "identities", "events"])
def test_lost_checkpoints_double_nothing(
    servers: Stack, lake: JobProcess, changes: Changes, lost: str
) -> None:
    changes = Changes(servers.environment["KAFKA_BOOTSTRAP"], f"lost-{lost}")
    changes.send(*mixture(seed=3, count=100, assets=5))
    _check(servers, changes)
    assert lake.stop() == 0
    folder = lake.checkpoints if lost == "everything" else lake.checkpoints / "lake" / lost
    shutil.rmtree(folder)
    lake.start()
    changes.send(*mixture(seed=3, count=100, assets=5), *mixture(seed=4, count=50, assets=5))
    _check(servers, changes)


def test_a_claim_whose_commit_never_came_is_taken_back(
    servers: Stack, lake: JobProcess, changes: Changes
) -> None:
    changes.send(tag("before", "pg://db/claim", "PII"))
    _check(servers, changes)
    restarts = servers.kill("s3")
    changes.send(tag("while S3 is away", "pg://db/claim", "GDPR"))
    servers.wait_restarted("s3", restarts)
    _check(servers, changes)


def test_compaction_folds_the_updates(servers: Stack, lake: JobProcess, changes: Changes) -> None:
    changes.send(*mixture(seed=5, count=60, assets=6))
    _check(servers, changes)

    def folded() -> bool:
        layers = servers.lake.rows("silver/assets", changes.tenant, ["layer"])
        return bool(layers) and {row["layer"] for row in layers} == {"primary"}

    until(folded, "compaction", deadline=60)
    _check(servers, changes)
