"""Compaction beside appends, in one process on a local lake: nobody ever sees a row lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.support.spark import end

from lily_local import jars
from lily_spark import session
from lily_spark.config import SparkSettings
from lily_spark.layered import assets
from lily_spark.sinks.layers import UpdatesLayer
from lily_spark.tables import ASSETS, open_table
from lily_spark.transforms.latest import registers_latest
from lily_spark.upkeep import rewriting
from lily_spark.upkeep.compaction import compact
from lily_spark.upkeep.rewriting import LostRowsError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SUBJECTS = 40


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    settings = SparkSettings.model_validate({"LILY_SPARK_JARS": jars.paths("spark")})
    built = session.build(settings, session.App("compaction-test", heap="768m", slots=3, lake=True))
    yield built
    end(built)


@pytest.fixture(autouse=True, params=["arrow", "spark"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of compaction end the same: around few rows by Arrow, of many by Spark."""
    if request.param == "spark":
        monkeypatch.setattr(rewriting, "MOST_CHANGED_BYTES", -1)
    return str(request.param)


@pytest.fixture
def settings(tmp_path: Path) -> SparkSettings:
    return SparkSettings.model_validate({"LAKE_URI": str(tmp_path / "lake"), "LILY_SILVER_BUCKETS": 3})


def _rows(batch: int, *, register: str = "aspect|core", accepted: datetime | None = None) -> pa.Table:
    """One register of each of some subjects; a later batch has the greater version."""
    subjects = [f"s{number}" for number in range(batch % 3, SUBJECTS, 3)]
    count = len(subjects)
    columns = {
        "tenant": ["acme"] * count,
        "subject": subjects,
        "register": [register] * count,
        "type": ["lily.asset.upserted"] * count,
        "version": [f"{batch:017d}.{0:020d}.s e"] * count,
        "data": [f'{{"batch":{batch}}}'] * count,
        "event_id": [f"e{batch}"] * count,
        "source": ["s"] * count,
        "time": [NOW] * count,
        "accepted_time": [accepted or datetime.now(UTC)] * count,
        "layer": ["updates"] * count,
        "bucket": [0] * count,
    }
    return pa.table(columns, schema=ASSETS.schema)


def _held(spark: SparkSession, settings: SparkSettings) -> dict[str, str]:
    silver = spark.read.format("delta").load(ASSETS.uri(settings))
    return {row["subject"]: row["version"] for row in registers_latest(silver).collect()}


def test_compaction_runs_beside_appends_and_readers(spark: SparkSession, settings: SparkSettings) -> None:
    updates = UpdatesLayer(settings, assets(settings))
    expected: dict[str, str] = {}
    rounds, done = 12, threading.Event()
    failures: list[BaseException] = []

    def append() -> None:
        try:
            for batch in range(60):
                rows = _rows(batch)
                updates.append(rows)
                expected.update(zip(rows["subject"].to_pylist(), rows["version"].to_pylist(), strict=True))
        except BaseException as failed:
            failures.append(failed)
        finally:
            done.set()

    updates.append(_rows(0))
    writer = threading.Thread(target=append)
    writer.start()
    for _ in range(rounds):
        before = dict(expected)
        compact(spark, settings, updates)
        seen = _held(spark, settings)
        assert all(seen[subject] >= version for subject, version in before.items())
        if done.is_set():
            break
    writer.join()
    assert not failures
    compact(spark, settings, updates)
    assert _held(spark, settings) == expected
    layers = spark.read.format("delta").load(ASSETS.uri(settings)).groupBy("layer").count().collect()
    assert [(row["layer"], row["count"]) for row in layers] == [("primary", len(expected))]


def test_followers_of_the_table_see_each_append_once_and_no_compaction(
    spark: SparkSession, settings: SparkSettings
) -> None:
    updates = UpdatesLayer(settings, assets(settings))
    updates.append(_rows(1))
    updates.append(_rows(1))
    compact(spark, settings, updates)
    updates.append(_rows(2))
    compact(spark, settings, updates)
    feed = open_table(ASSETS, settings).load_cdf(starting_version=0).read_all()
    changes = pa.table(feed).group_by(["_change_type"]).aggregate([("subject", "count")]).to_pylist()
    assert changes == [{"_change_type": "insert", "subject_count": sum(_rows(n).num_rows for n in (1, 1, 2))}]


def test_what_is_new_stands_beside_what_was_there(spark: SparkSession, settings: SparkSettings) -> None:
    """Each round brings other subjects than those before, in several files, to buckets that have several by then."""
    updates = UpdatesLayer(settings, assets(settings))
    expected: dict[str, str] = {}
    for batch in (0, 1, 2, 4, 3):
        rows = _rows(batch)
        updates.append(rows.slice(0, 3))
        updates.append(rows.slice(3))
        expected |= dict(zip(rows["subject"].to_pylist(), rows["version"].to_pylist(), strict=True))
        compact(spark, settings, updates)
        assert _held(spark, settings) == expected


def test_a_compaction_that_would_lose_a_key_commits_nothing(
    spark: SparkSession, settings: SparkSettings, way: str
) -> None:
    if way == "spark":
        return  # it cannot tell: its rows are never in one place
    updates = UpdatesLayer(settings, replace(assets(settings), current=lambda rows: rows.limit(1)))
    rows = _rows(1)
    updates.append(rows)
    with pytest.raises(LostRowsError, match=f"{rows.num_rows - 1} of {rows.num_rows} keys"):
        compact(spark, settings, updates)
    assert len(_held(spark, settings)) == rows.num_rows


def test_nothing_to_do_makes_no_commit(spark: SparkSession, settings: SparkSettings) -> None:
    updates = UpdatesLayer(settings, assets(settings))
    updates.append(_rows(1))
    compact(spark, settings, updates)
    version = open_table(ASSETS, settings).version()
    assert compact(spark, settings, updates) == {"rounds": 0, "buckets": 0, "rows": 0}
    assert open_table(ASSETS, settings).version() == version


def test_a_restart_takes_up_the_rounds_of_before(spark: SparkSession, settings: SparkSettings) -> None:
    UpdatesLayer(settings, assets(settings)).append(_rows(1))
    updates = UpdatesLayer(settings, assets(settings))
    updates.append(_rows(2))
    assert compact(spark, settings, updates)["rounds"] == 2
    assert len(_held(spark, settings)) == len(
        {*_rows(1)["subject"].to_pylist(), *_rows(2)["subject"].to_pylist()}
    )


def test_old_graves_are_cleared_and_young_ones_stay(spark: SparkSession, settings: SparkSettings) -> None:
    updates = UpdatesLayer(settings, assets(settings))
    long_ago = datetime.now(UTC) - timedelta(days=settings.tombstone_days + 1)
    updates.append(_rows(1, accepted=long_ago))
    updates.append(_rows(4, register="deleted", accepted=long_ago))
    updates.append(_rows(2))
    updates.append(_rows(5, register="deleted"))
    compact(spark, settings, updates)
    silver = spark.read.format("delta").load(ASSETS.uri(settings))
    left = {row["register"] for row in silver.where(F.col("subject") == "s1").collect()}
    young = {row["register"] for row in silver.where(F.col("subject") == "s2").collect()}
    assert (left, young) == (set(), {"aspect|core", "deleted"})
