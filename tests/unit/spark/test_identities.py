"""The identity index: what is new, what comes again, and what is left of it after each kind of accident."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import time_machine

from lily_spark.sinks.identities import Identities

COLUMNS = ("tenant", "source", "id", "type", "subject", "data", "topic", "partition", "offset")


def events(*rows: tuple[str, str, int]) -> pa.Table:
    """(id, data, offset) of events that differ in nothing else."""
    full = [
        ("acme", "s", key, "t", "a", data, "lily.changes.priority", 0, offset) for key, data, offset in rows
    ]
    return pa.table(dict(zip(COLUMNS, map(list, zip(*full, strict=True)), strict=True)))


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Identities]:
    opened = fresh(tmp_path)
    yield opened
    opened.close()


def fresh(folder: Path) -> Identities:
    opened = Identities(folder / "identities", days=7)
    if not opened.settle(None):
        opened.rebuild([])
    return opened


def test_the_first_wins_a_repeat_is_dropped_a_conflict_is_told(index: Identities) -> None:
    verdict = index.judge(events(("a", "1", 0), ("a", "1", 1), ("a", "2", 2), ("b", "1", 3)))
    assert (verdict.new, verdict.kept, verdict.repeats, verdict.conflicts) == ([0, 3], [0, 3], 1, 1)
    index.claim(verdict)
    later = index.judge(events(("a", "1", 9), ("a", "3", 10), ("c", "1", 11)))
    assert (later.new, later.repeats, later.conflicts) == ([2], 1, 1)


def test_the_same_message_read_again_keeps_its_identity_but_is_not_new(index: Identities) -> None:
    batch = events(("a", "1", 0), ("b", "1", 1))
    index.claim(index.judge(batch))
    again = index.judge(batch)
    assert (again.new, again.kept, again.repeats) == ([], [0, 1], 0)


def test_tenant_source_and_id_make_an_identity_together(index: Identities) -> None:
    one = events(("a", "1", 0))
    others = [
        one.set_column(0, "tenant", pa.array(["other"])),
        one.set_column(1, "source", pa.array(["other"])),
    ]
    index.claim(index.judge(one))
    assert [index.judge(other).new for other in others] == [[0], [0]]


def test_an_identity_is_forgotten_after_its_days(tmp_path: Path) -> None:
    with time_machine.travel(0, tick=False) as clock:
        index = fresh(tmp_path)
        index.claim(index.judge(events(("a", "1", 0))))
        clock.shift(7 * 86_400 - 120)
        assert index.judge(events(("a", "1", 5))).repeats == 1
        clock.shift(240)
        assert index.judge(events(("a", "1", 6))).new == [0]
        index.close()


def test_no_rows_no_verdict(index: Identities) -> None:
    assert index.judge(events(("a", "1", 0)).slice(0, 0)).new == []


def _reopened(folder: Path, committed: int | None) -> tuple[Identities, bool]:
    opened = Identities(folder / "identities", days=7)
    return opened, opened.settle(committed)


def test_a_claim_whose_commit_came_holds_after_a_crash(tmp_path: Path) -> None:
    index = fresh(tmp_path)
    sequence = index.claim(index.judge(events(("a", "1", 0))))
    index.close()
    again, agreed = _reopened(tmp_path, sequence)
    assert agreed
    assert again.judge(events(("a", "1", 0))).new == []
    again.close()


def test_a_claim_whose_commit_never_came_is_taken_back(tmp_path: Path) -> None:
    index = fresh(tmp_path)
    first = index.claim(index.judge(events(("a", "1", 0))))
    index.claim(index.judge(events(("b", "1", 1))))
    index.close()
    again, agreed = _reopened(tmp_path, first)
    assert agreed
    assert again.judge(events(("a", "1", 0), ("b", "1", 1))).new == [1]
    assert again.claim(again.judge(events(("b", "1", 1)))) == first + 1
    again.close()


@pytest.mark.parametrize("committed", [None, 1, 9])
def test_when_the_table_says_otherwise_the_index_is_built_anew(tmp_path: Path, committed: int | None) -> None:
    index = fresh(tmp_path)
    for number in range(4):
        index.claim(index.judge(events((f"e{number}", "1", number))))
    old = index.app_id
    index.close()
    again, agreed = _reopened(tmp_path, committed)
    assert not agreed
    again.rebuild([events(("held", "1", 3)).drop_columns(["type", "subject", "data"])])
    assert again.app_id != old
    verdict = again.judge(events(("e0", "1", 0), ("held", "1", 3), ("held", "changed", 8)))
    assert (verdict.new, verdict.kept, verdict.repeats) == ([0], [0, 1], 1)
    again.close()
