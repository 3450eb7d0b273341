"""The fan-out job on a real broker: what is worth telling arrives, from either query, and nothing is lost by a death."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from tests.integration.spark.changes import Changes, mixture, tag, upsert
from tests.integration.spark.process import JobProcess
from tests.support.poll import until
from tests.support.stack import Stack

from lily_common.events import FANOUT_TYPES, NOTICES_TOPIC

pytestmark = pytest.mark.stack


def _notices(servers: Stack, tenant: str, start: Mapping[int, int]) -> list[dict[str, Any]]:
    """Notices of the tenant since `start`, in Kafka's order per partition."""
    found = (orjson.loads(message.value() or b"{}") for message in servers.log.read(NOTICES_TOPIC, start))
    return [notice for notice in found if notice.get("tenantid") == tenant]


def _wanted(changes: Changes) -> set[str]:
    return {key[1] for key, sent in changes.sent.first.items() if sent["type"] in FANOUT_TYPES}


def test_each_change_worth_telling_comes_unchanged_from_both_queries(
    servers: Stack, fanout: JobProcess
) -> None:
    changes = Changes(servers.environment["KAFKA_BOOTSTRAP"], "fanout-pair")
    start = servers.log.ends(NOTICES_TOPIC)
    changes.send(upsert("quiet", "pg://db/a", "no news"), tag("loud", "pg://db/a", "PII"))
    until(lambda: len(_notices(servers, changes.tenant, start)) == 2, "both copies of one notice")
    first, second = _notices(servers, changes.tenant, start)
    assert first == second == changes.sent.first["test", "loud"]


def test_messages_that_are_no_events_are_passed_over(servers: Stack, fanout: JobProcess) -> None:
    changes = Changes(servers.environment["KAFKA_BOOTSTRAP"], "fanout-junk")
    start = servers.log.ends(NOTICES_TOPIC)
    for value in (b"no json", b"\xff\x00", b"[]", b"{}", None):
        changes.send_raw("lily.changes.priority", value, b"junk")
    changes.send(tag("after the junk", "pg://db/a", "PII"))
    until(lambda: len(_notices(servers, changes.tenant, start)) == 2, "the event behind the junk")
    assert fanout.metric("lily_stream_restarts_total") == 0


def test_kill_9_loses_no_notice(servers: Stack, fanout: JobProcess) -> None:
    changes = Changes(servers.environment["KAFKA_BOOTSTRAP"], "fanout-kill")
    start = servers.log.ends(NOTICES_TOPIC)
    events = list(mixture(seed=21, count=600, assets=20))
    sender = threading.Thread(target=_send_slowly, args=(changes, events))
    sender.start()
    chance = random.Random(5)
    for _ in range(2):
        time.sleep(chance.uniform(1, 5))
        fanout.kill()
        fanout.start()
    sender.join()
    until(
        lambda: {notice["id"] for notice in _notices(servers, changes.tenant, start)} == _wanted(changes),
        "every notice",
        deadline=60,
    )


def test_a_graceful_stop_repeats_little_and_loses_nothing(servers: Stack, fanout: JobProcess) -> None:
    changes = Changes(servers.environment["KAFKA_BOOTSTRAP"], "fanout-stop")
    start = servers.log.ends(NOTICES_TOPIC)
    changes.send(tag("before", "pg://db/a", "PII"))
    until(lambda: len(_notices(servers, changes.tenant, start)) >= 2, "both copies")
    assert fanout.stop() == 0
    changes.send(tag("while it is down", "pg://db/a", "GDPR"))
    fanout.start()

    def both() -> bool:
        copies = Counter(notice["id"] for notice in _notices(servers, changes.tenant, start))
        return copies["while it is down"] >= 2 and set(copies) == _wanted(changes)

    until(both, "what came while it was down")


def _send_slowly(changes: Changes, events: list[dict[str, Any]]) -> None:
    for start in range(0, len(events), 10):
        changes.send(*events[start : start + 10])
        time.sleep(0.3)
