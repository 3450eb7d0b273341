"""Bronze read as a stream: in order, in bounded spans, the same after files were merged, sorted and vacuumed."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from tests.integration.replay.bronze import START, Bronze

from lily_spark import evolution
from lily_spark.config import SparkSettings
from lily_spark.replay.reading import EventLog, Past
from lily_spark.replay.request import BEGINNING, Request
from lily_spark.sinks.delta import Appender
from lily_spark.tables import COMMITS, EVENTS, open_table
from lily_spark.upkeep.sorting import SORTED, sort_past_days

COMMITTED = 120


@pytest.fixture
def settings(tmp_path: Path) -> SparkSettings:
    return SparkSettings.model_validate({"LAKE_URI": str(tmp_path / "lake")})


@pytest.fixture
def bronze(settings: SparkSettings) -> Bronze:
    """120 commits over two days, of two tenants."""
    made = Bronze(settings)
    for number in range(COMMITTED):
        made.commit(
            *(("acme", f"a/{number % 7}/t{n}", f"{number}-{n}") for n in range(number % 4 + 1)),
            ("other", "a/0/t0", f"other-{number}"),
        )
    return made


def wanted(**more: Any) -> Request:
    return Request(**{"id": "r", "tenant": "acme", "target": "topic/t", "rate": 1.0} | more)


def read_all(log: EventLog, request: Request, *, rows: int = 10) -> list[Past]:
    found: list[Past] = []
    place, through = BEGINNING, log.last_commit()
    last = through if request.last_commit is None else min(through, request.last_commit)
    while (span := log.read(request, place, last, rows)) is not None:
        assert len(span.events) <= rows + 5, "a span goes over its size by less than a commit"
        found += span.events
        place = span.end
    return found


def ids(found: list[Past]) -> list[str]:
    return [orjson.loads(past.event)["id"] for past in found]


def expected(bronze: Bronze, first: int = 0, last: int = COMMITTED) -> list[str]:
    return [
        sent["id"] for sent in bronze.sent if sent["tenantid"] == "acme" and first <= sent["commit"] <= last
    ]


def test_everything_comes_in_the_order_of_the_stream(settings: SparkSettings, bronze: Bronze) -> None:
    assert ids(read_all(EventLog(settings), wanted())) == expected(bronze)


@pytest.mark.parametrize("how", ["merged", "sorted"])
def test_by_commit_and_by_time_the_same_after_upkeep(
    settings: SparkSettings, bronze: Bronze, how: str
) -> None:
    table = open_table(EVENTS, settings)
    if how == "merged":
        table.optimize.compact(target_size=20_000)
    else:
        assert sort_past_days(settings) == 2
    table.update_incremental()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert len(table.file_uris()) < COMMITTED
    log = EventLog(settings)
    assert log.last_commit() == COMMITTED
    assert ids(read_all(log, wanted())) == expected(bronze)
    assert ids(read_all(log, wanted(first_commit=40, last_commit=63))) == expected(bronze, 40, 63)
    hour = {"since": START + timedelta(minutes=31), "until": START + timedelta(minutes=91)}
    assert ids(read_all(log, wanted(**hour))) == expected(bronze, 31, 90)


def test_reading_goes_on_behind_any_event(settings: SparkSettings, bronze: Bronze) -> None:
    log = EventLog(settings)
    everything = read_all(log, wanted())
    for number in (0, 1, 57, len(everything) - 2):
        span = log.read(wanted(), everything[number].position, COMMITTED)
        assert span is not None
        assert ids(span.events) == expected(bronze)[number + 1 :]


def test_types_and_assets_choose(settings: SparkSettings, bronze: Bronze) -> None:
    log = EventLog(settings)
    chosen = [sent for sent in bronze.sent if sent["tenantid"] == "acme"]
    found = read_all(log, wanted(assets=("a/3/*", "a/5/t1")))
    assert ids(found) == [
        s["id"] for s in chosen if s["subject"].startswith("a/3/") or s["subject"] == "a/5/t1"
    ]
    found = read_all(log, wanted(types=("lily.classification.attached",)))
    assert ids(found) == [s["id"] for s in chosen if s["type"] == "lily.classification.attached"]
    assert read_all(log, wanted(assets=("it's' OR '1'='1",))) == []


def test_a_day_is_sorted_once_and_reads_few_rows_of_it(settings: SparkSettings, bronze: Bronze) -> None:
    assert sort_past_days(settings) == 2
    assert sort_past_days(settings) == 0
    table = open_table(EVENTS, settings)
    assert table.transaction_version(SORTED) == (date(2026, 1, 2) - date(1970, 1, 1)).days
    for partition in table.partitions():
        commits = table.to_pyarrow_table(
            filters=[
                ("date", "=", date.fromisoformat(str(partition["date"]))),
                ("tenant", "=", partition["tenant"]),
            ],
            columns=["commit"],
        )["commit"].to_pylist()
        assert commits == sorted(commits)
    assert ids(read_all(EventLog(settings), wanted())) == expected(bronze)


def test_a_table_from_before_gains_the_column_and_numbers(settings: SparkSettings) -> None:
    old = pa.schema([field for field in EVENTS.schema if field.name != "commit"])
    before = type(EVENTS)(EVENTS.name, old, EVENTS.partitions, ("id", "accepted_time"), {})
    made = Bronze(settings)
    appender = Appender(before, settings)
    for number in range(5):
        made._commit = number
        row = made._row({**_envelope(number)}, START + timedelta(minutes=number))
        appender.append(pa.Table.from_pylist([row], schema=EVENTS.schema).select(old.names))
    evolution.evolve(EVENTS, settings)
    evolution.number_events(settings)
    evolution.number_events(settings)
    table = open_table(EVENTS, settings)
    last = table.transaction_version(COMMITS)
    assert last is not None
    made._commit = last
    made.commit(("acme", "a", "new"))
    found = read_all(EventLog(settings), wanted())
    assert ids(found) == ["old-0", "old-1", "old-2", "old-3", "old-4", "new"]
    assert [past.position.commit for past in found][-1] == last + 1


def _envelope(number: int) -> dict[str, Any]:
    envelope = {"tenantid": "acme", "id": f"old-{number}", "source": "s", "type": "t", "subject": "a"}
    return envelope | {"lane": "priority", "stateversion": "1"}
