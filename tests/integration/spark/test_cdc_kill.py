"""kill -9 of the lake job while change data is appended and compacted: the tables end as a plain replay does."""

from __future__ import annotations

import random
import secrets
import threading
import time
from typing import Any

import pytest
from tests.integration.spark.captured import Captured
from tests.integration.spark.process import JobProcess
from tests.support.debezium import Postgres, of
from tests.support.poll import until
from tests.support.stack import Stack

from lily_spark.cdc.shape import PLACEHOLDER
from lily_spark.cdc.topics import Capture

pytestmark = pytest.mark.stack
KEYS, EVENTS, KILLS = 30, 600, 4


class Life:
    """Random changes of one table, and what they make of it."""

    def __init__(self, table: Captured, seed: int) -> None:
        self.table = table
        self.state: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._chance = random.Random(seed)
        self._source = Postgres({"id": of("int32"), "n": of("int32"), "body": of("string")}, ("id",))

    def step(self, number: int) -> None:
        key = self._chance.randrange(KEYS)
        held = self.state.get((key,))
        if held is not None and self._chance.random() < 0.2:
            gone = self._source.delete({"id": key})
            self.table.send(gone, (gone[0], None))
            del self.state[(key,)]
            return
        body = f"b{number}" if held is None or self._chance.random() < 0.5 else held["body"]
        row = {"id": key, "n": number, "body": body}
        sent = row if held is None or body != held["body"] else row | {"body": PLACEHOLDER}
        self.table.send(self._source.update(sent))
        self.state[(key,)] = row


def test_kill_9_during_appends_and_compaction(servers: Stack, lake: JobProcess) -> None:
    source = f"s{secrets.token_hex(3)}"
    lives = [
        Life(Captured(servers.environment, Capture("acme", source, f"public.t{number}")), number)
        for number in range(2)
    ]

    def live() -> None:
        for number in range(EVENTS):
            for life in lives:
                life.step(number)
            time.sleep(0.02)

    sender = threading.Thread(target=live)
    sender.start()
    chance = random.Random(5)
    for _ in range(KILLS):
        time.sleep(chance.uniform(1, 8))
        lake.kill()
        lake.start()
    sender.join()
    for life in lives:

        def same(life: Life = life) -> bool:
            assert life.table.latest("id") == life.state
            return True

        until(same, "the table to be what its events make", deadline=90)
    until(
        lambda: all({row["__layer"] for row in life.table.rows()} == {"primary"} for life in lives),
        "the last compaction",
    )
    for life in lives:
        assert life.table.latest("id") == life.state
        held = [row["id"] for row in life.table.rows()]
        assert len(held) == len(set(held)), "a key stands in the primary layer once"
