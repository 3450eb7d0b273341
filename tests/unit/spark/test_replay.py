"""What is decided in a replay without a lake or Kafka: spans, requests, places, retention."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily_spark.replay.player import marked
from lily_spark.replay.request import BEGINNING, Position, Progress, Request
from lily_spark.replay.spans import FileRange, span_end
from lily_spark.upkeep.retention import first_kept

FILES = st.lists(
    st.tuples(st.integers(1, 500), st.integers(0, 80), st.integers(1, 400)).map(
        lambda made: FileRange(made[0], made[0] + made[1], made[2])
    ),
    max_size=12,
)


@given(FILES, st.integers(1, 500), st.integers(0, 600), st.integers(1, 300))
def test_spans_follow_one_another_to_the_end(
    files: list[FileRange], start: int, length: int, rows: int
) -> None:
    end, steps = start + length, 0
    while start <= end:
        last = span_end(files, start, end, rows)
        assert start <= last <= end
        start = last + 1
        steps += 1
    assert steps <= length + 1


def test_a_span_holds_about_as_many_rows_as_are_asked_for() -> None:
    single = [FileRange(number, number, 10) for number in range(1, 101)]
    assert span_end(single, 1, 100, 50) == 5
    assert span_end([FileRange(1, 100, 1000)], 1, 100, 50) == 5
    assert span_end([FileRange(1, 1, 900), FileRange(2, 9, 8)], 1, 9, 50) == 1
    assert span_end([FileRange(50, 50, 3)], 1, 100, 50) == 100
    assert span_end([], 1, 100, 50) == 100


def test_a_request_says_what_its_bounds_are() -> None:
    args = {"from": 7, "to": "2026-01-02T00:00:00Z", "to_topic": "audit", "rate": 5}
    request = Request.read({"id": "cmd_1", "tenant": "acme", "args": args})
    assert (request.first_commit, request.last_commit) == (7, None)
    assert (request.since, request.until) == (None, datetime(2026, 1, 2, tzinfo=UTC))
    assert request.target == "topic/audit"
    args = {"to_subscription": "sub_1", "rate": 5, "filter": False, "types": ["t"], "assets": ["a*"]}
    request = Request.read({"id": "cmd_1", "tenant": "acme", "args": args})
    assert (request.target, request.selective) == ("subscription/sub_1", False)
    assert (request.types, request.assets) == (("t",), ("a*",))


@pytest.mark.parametrize("args", [None, {}, {"rate": "x"}, {"rate": 1, "from": "yesterday"}])
def test_what_is_no_request_is_refused(args: object) -> None:
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        Request.read({"id": "cmd_1", "tenant": "acme", "args": args})


def test_progress_survives_being_stored() -> None:
    command = {"id": "cmd_1", "tenant": "acme", "command": "replay", "args": {"to_topic": "t", "rate": 1}}
    progress = Progress(command)
    assert progress.position == BEGINNING < Position(0)
    progress.through, progress.position, progress.sent = 9, Position(4, "t", 1, 77), 12
    progress.ended = datetime(2026, 1, 1, tzinfo=UTC)
    again = Progress.restored(orjson.loads(orjson.dumps(progress.stored())))
    assert again == progress


def test_the_mark_leaves_the_event_as_its_sender_wrote_it() -> None:
    text = '{"id":"1","data":{"n":1e2,"big":123456789012345678901234567890}}'
    assert marked(text, "cmd_1").decode() == text[:-1] + ',"replayid":"cmd_1"}'


TODAY = date(2026, 3, 1)
LAST = {TODAY - timedelta(days=age): 1000 - 10 * age for age in range(60)}


@pytest.mark.parametrize(
    ("days", "commits", "kept"),
    [(0, 0, None), (30, 0, 30), (0, 200, 19), (30, 200, 30), (10, 400, 39), (3, 0, 9), (90, 1, None)],
)
def test_what_is_older_than_both_goes_and_the_last_days_stay(
    days: int, commits: int, kept: int | None
) -> None:
    first = first_kept(LAST, TODAY, days=days, commits=commits, at_least=9)
    assert first == (None if kept is None else TODAY - timedelta(days=kept))
