"""Old dates leave bronze; what they came to stays, and the past since then is told as before."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.integration.replay.bronze import START, Bronze
from tests.support.spark import end

from lily_api.lake.commits import CommitReader
from lily_api.lake.edges import EdgeReader
from lily_api.lake.reader import LakeReader
from lily_api.lake.tables import Tables
from lily_common.errors import InvalidInputError
from lily_local import jars
from lily_spark import session
from lily_spark.config import SparkSettings
from lily_spark.evolution import evolve
from lily_spark.replay.reading import EventLog
from lily_spark.replay.request import BEGINNING, Request
from lily_spark.tables import PAST
from lily_spark.upkeep.retention import expire_events

COMMITS = 120
TENANTS = ("acme", "other")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    settings = SparkSettings.model_validate({"LILY_SPARK_JARS": jars.paths("spark")})
    built = session.build(settings, session.App("retention-test", heap="768m", slots=2, lake=True))
    yield built
    end(built)


@pytest.fixture
def settings(tmp_path: Path) -> SparkSettings:
    limits = {"LILY_BRONZE_KEEP_DAYS": 30, "LILY_BRONZE_KEEP_COMMITS": 60}
    made = SparkSettings.model_validate({"LAKE_URI": str(tmp_path / "lake"), **limits})
    evolve(PAST, made)
    return made


async def test_what_is_older_than_both_leaves_and_its_state_stays(
    spark: SparkSession, settings: SparkSettings
) -> None:
    bronze = Bronze(settings)
    for number in range(COMMITS):
        bronze.commit(*((tenant, f"t{number % 7}", f"{tenant}-{number}") for tenant in TENANTS))
    moments = [START + timedelta(minutes=minute) for minute in (60, 61, 75, 100, 500)]
    reader, edges = LakeReader(Tables(settings)), EdgeReader(Tables(settings))
    before = [await reader.registers_at("acme", f"t{n}", at) for at in moments for n in range(7)]
    described = await edges.registers("acme", ["t0", "t1"], moments[0])
    assert all(before)

    assert expire_events(spark, settings) == date(2026, 1, 2)
    assert expire_events(spark, settings) is None

    log = EventLog(settings)
    assert log.last_commit() == COMMITS
    wanted = Request(id="r", tenant="acme", target="topic/t", rate=1.0)
    span = log.read(wanted, BEGINNING, COMMITS)
    assert span is not None
    assert {past.position.commit for past in span.events} == set(range(60, COMMITS + 1))
    assert [await reader.registers_at("acme", f"t{n}", at) for at in moments for n in range(7)] == before
    assert await edges.registers("acme", ["t0", "t1"], moments[0]) == described
    with pytest.raises(InvalidInputError, match="no longer kept"):
        await reader.registers_at("acme", "t0", datetime(2026, 1, 1, 23, 59, tzinfo=UTC))
    with pytest.raises(InvalidInputError, match="no longer kept"):
        await edges.graph("acme", START)


async def test_commits_are_found_by_time_and_number(settings: SparkSettings) -> None:
    bronze = Bronze(settings)
    for number in range(20):
        bronze.commit((TENANTS[number % 2], "t", str(number)))
    reader = CommitReader(Tables(settings))
    extent, found = await reader.find("acme", START + timedelta(minutes=4, seconds=1), None)
    assert extent is not None
    assert found is not None
    assert (extent.first_commit, extent.last_commit, extent.events) == (1, 19, 10)
    assert (found.commit, found.first_time, found.events) == (5, START + timedelta(minutes=5), 1)
    _, found = await reader.find("other", None, 5)
    assert found is not None
    assert found.commit == 6
    assert (await reader.find("acme", START + timedelta(days=3), None))[1] is None
    assert (await reader.find("acme", None, 20))[1] is None
    assert await reader.find("nobody", START, None) == (None, None)
