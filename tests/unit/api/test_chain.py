"""The audit log's hash chain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily_api.audit.chain import GENESIS, ChainCheck, link_hash, plain


@dataclass
class Row:
    tenant: str = "a"
    seq: int = 1
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    actor: str = "operator"
    action: str = "key.create"
    target: str = "key:1"
    request_id: str = "r"
    outcome: str = "ok"
    detail: Any = None
    previous_hash: str = GENESIS
    hash: str = ""


def _chain(length: int) -> list[Row]:
    rows: list[Row] = []
    for seq in range(1, length + 1):
        row = Row(seq=seq, detail={"n": seq}, previous_hash=rows[-1].hash if rows else GENESIS)
        row.hash = link_hash(row)
        rows.append(row)
    return rows


def _broken_at(rows: list[Row]) -> int | None:
    check = ChainCheck()
    for row in rows:
        check.add(row)
    return check.broken_at


def test_an_untouched_chain_holds() -> None:
    assert _broken_at(_chain(5)) is None
    assert _broken_at([]) is None


@pytest.mark.parametrize(
    "change",
    [
        {"tenant": "b"},
        {"actor": "x"},
        {"action": "x"},
        {"target": "x"},
        {"request_id": "x"},
        {"outcome": "x"},
        {"detail": {"n": 30}},
        {"at": datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)},
        {"previous_hash": GENESIS},
        {"hash": GENESIS},
        {"seq": 9},
    ],
)
def test_any_change_of_any_column_is_found(change: dict[str, Any]) -> None:
    rows = _chain(5)
    rows[2] = replace(rows[2], **change)
    assert _broken_at(rows) == 3


def test_a_rehashed_row_breaks_the_next() -> None:
    rows = _chain(5)
    rows[2].actor = "x"
    rows[2].hash = link_hash(rows[2])
    assert _broken_at(rows) == 4


def test_missing_and_swapped_rows_are_found() -> None:
    rows = _chain(5)
    assert _broken_at(rows[1:]) == 1
    assert _broken_at(rows[:2] + rows[3:]) == 3
    assert _broken_at([rows[0], rows[2], rows[1], *rows[3:]]) == 2


def test_the_time_zone_of_the_reader_does_not_matter() -> None:
    row = Row()
    elsewhere = replace(row, at=row.at.astimezone(timezone(timedelta(hours=5))))
    assert link_hash(row) == link_hash(elsewhere)


@given(
    st.dictionaries(st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
)
def test_plain_is_stable(detail: dict[str, Any]) -> None:
    assert plain(plain(detail)) == plain(detail)


def test_plain_takes_what_json_cannot() -> None:
    assert plain({"at": datetime(2026, 1, 1, tzinfo=UTC)}) == {"at": "2026-01-01 00:00:00+00:00"}
    assert plain(None) == {}
