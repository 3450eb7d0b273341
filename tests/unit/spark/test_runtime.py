"""What keeps an application alive, with queries that only pretend."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lily_spark.runtime.hedge import Stagger
from lily_spark.runtime.progress import Progress
from lily_spark.runtime.queries import MAX_FAILURES, Queries, QueryFailedError


class FakeQuery:
    """A streaming query as far as the supervisor looks at one."""

    def __init__(self, run: str = "r", message: str = "Waiting for data to arrive") -> None:
        self.runId = run
        self.isActive = True
        self.status = {"message": message, "isTriggerActive": False}
        self.reports: list[dict[str, Any]] = []
        self._jsq = SimpleNamespace(
            recentProgress=lambda: [SimpleNamespace(json=lambda r=r: json.dumps(r)) for r in self.reports]
        )

    def exception(self) -> str | None:
        return "broken"

    def stop(self) -> None:
        self.isActive = False


def fake_spark() -> SparkSession:
    tracker = SimpleNamespace(getJobIdsForGroup=lambda _: [])
    context = SimpleNamespace(statusTracker=lambda: tracker, setLocalProperty=lambda *_: None)
    return cast(SparkSession, SimpleNamespace(sparkContext=context))


def report(run: str, stamp: str, rows: int = 1) -> dict[str, Any]:
    source = {"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 8}}}
    return {"runId": run, "timestamp": stamp, "numInputRows": rows, "batchDuration": 10, "sources": [source]}


def started(queries: Queries, made: list[FakeQuery], *, message: str = "Waiting for data to arrive") -> None:
    def start() -> StreamingQuery:
        made.append(FakeQuery(f"run-{len(made)}", message))
        return cast(StreamingQuery, made[-1])

    queries.add("q", start)


def test_a_query_is_ready_when_it_waits_for_data() -> None:
    queries, made = Queries(fake_spark()), list[FakeQuery]()
    started(queries, made, message="Initializing sources")
    queries.check()
    assert queries.ready() == {"q": "starting"}
    made[0].status["message"] = "Waiting for data to arrive"
    queries.check()
    assert queries.ready() == {"q": "ok"}


def test_a_dead_query_is_restarted_in_place() -> None:
    queries, made = Queries(fake_spark()), list[FakeQuery]()
    started(queries, made)
    queries.check()
    made[0].isActive = False
    queries.check()
    assert len(made) == 2
    assert queries.ready() == {"q": "starting"}
    queries.check()
    assert queries.ready() == {"q": "ok"}


def test_a_query_that_never_gets_a_batch_done_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lily_spark.runtime.queries._MAX_BACKOFF", 0.0)
    queries, made = Queries(fake_spark()), list[FakeQuery]()
    started(queries, made)

    def fail_again_and_again() -> None:
        for _ in range(MAX_FAILURES):
            made[-1].isActive = False
            queries.check()

    with pytest.raises(QueryFailedError, match="broken"):
        fail_again_and_again()
    assert len(made) == MAX_FAILURES


def test_a_batch_in_between_makes_up_for_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lily_spark.runtime.queries._MAX_BACKOFF", 0.0)
    queries, made = Queries(fake_spark()), list[FakeQuery]()
    started(queries, made)
    for number in range(3 * MAX_FAILURES):
        made[-1].reports = [report(made[-1].runId, f"{number:04d}")]
        queries.check()
        made[-1].isActive = False
        queries.check()
    assert len(made) == 3 * MAX_FAILURES + 1


def test_what_cannot_even_start_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lily_spark.runtime.queries._MAX_BACKOFF", 0.0)
    attempts: list[int] = []

    def start() -> StreamingQuery:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("S3 is away")
        return cast(StreamingQuery, FakeQuery())

    queries = Queries(fake_spark())
    queries.add("q", start)
    queries.check()
    assert len(attempts) == 2


def test_each_report_is_told_once_and_a_new_run_begins_anew() -> None:
    progress, told = Progress(), list[tuple[str, str]]()
    progress.observe(lambda name, found: told.append((name, found["timestamp"])))
    query = FakeQuery("one")
    query.reports = [report("one", "1"), report("one", "2")]
    assert progress.read("q", cast(StreamingQuery, query))
    assert not progress.read("q", cast(StreamingQuery, query))
    query.reports.append(report("one", "3"))
    assert progress.read("q", cast(StreamingQuery, query))
    again = FakeQuery("a run whose id sorts first")
    again.reports = [report(again.runId, "0")]
    assert progress.read("q", cast(StreamingQuery, again))
    assert [stamp for _, stamp in told] == ["1", "2", "3", "0"]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def staggered(*boundaries: tuple[str, float]) -> tuple[str, float] | None:
    clock = Clock()
    stagger = Stagger(("a", "b"), period=10.0, clock=clock)
    for name, moment in boundaries:
        clock.now = moment
        stagger.committed(name)
    return stagger.take()


def test_the_second_of_two_near_boundaries_moves_half_a_period_away() -> None:
    assert staggered(("a", 100.0), ("b", 100.5)) == ("b", 4.5)
    assert staggered(("b", 100.0), ("a", 101.0)) == ("a", 4.0)


def test_boundaries_that_lie_apart_stay() -> None:
    assert staggered(("a", 100.0), ("b", 105.0), ("a", 110.1), ("b", 115.2)) is None


def test_other_queries_do_not_matter() -> None:
    assert staggered(("a", 100.0), ("c", 100.1)) is None


def test_a_move_is_asked_for_once() -> None:
    clock = Clock()
    stagger = Stagger(("a", "b"), period=10.0, clock=clock)
    for name in ("a", "b"):
        stagger.committed(name)
    assert stagger.take() is not None
    assert stagger.take() is None
