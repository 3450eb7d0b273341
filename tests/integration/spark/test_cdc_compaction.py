"""Compaction, doubling of buckets and widening beside appends and long readers, on a local lake: nobody sees a row lost."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.integration.spark.captured import newest
from tests.support.spark import end

from lily_local import jars
from lily_spark import session
from lily_spark.cdc.registry import CdcTable, CdcTables, stored
from lily_spark.cdc.tables import latest
from lily_spark.cdc.topics import Capture
from lily_spark.config import SparkSettings
from lily_spark.upkeep.compaction import compact
from lily_spark.upkeep.housekeeping import Housekeeping

KEYS = 200
COLUMNS = [pa.field("id", pa.int32()), pa.field("n", pa.int32()), pa.field("body", pa.string())]
CAPTURE = Capture("acme", "shop", "public.t")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    settings = SparkSettings.model_validate({"LILY_SPARK_JARS": jars.paths("spark")})
    built = session.build(settings, session.App("cdc-compaction-test", heap="768m", slots=3, lake=True))
    yield built
    end(built)


@pytest.fixture
def settings(tmp_path: Path) -> SparkSettings:
    return SparkSettings.model_validate(
        {"LAKE_URI": str(tmp_path / "lake"), "LILY_CDC_BUCKETS": 2, "LILY_VACUUM_DAYS": 0}
    )


@pytest.fixture
def tables(spark: SparkSession, settings: SparkSettings) -> CdcTables:
    return CdcTables(spark, settings)


@pytest.fixture
def table(tables: CdcTables) -> CdcTable:
    return tables.create(CAPTURE, ["id"], COLUMNS)


class History:
    """Random batches of one table, one row a key each, and the state after each of them."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._version = 0
        self.state: dict[tuple[Any, ...], dict[str, Any]] = {}

    def batch(self, table: CdcTable) -> pa.Table:
        rows = []
        for key in self._chance.sample(range(KEYS), 20):
            self._version += 1
            held = self.state.get((key,))
            gone = held is not None and self._chance.random() < 0.2
            lacking = held is not None and self._chance.random() < 0.4
            row = {"id": key, "n": self._version, "body": f"b{self._version}"}
            sent = row | {"body": None} if lacking or gone else row
            if gone:
                sent["n"] = None
                del self.state[(key,)]
            else:
                self.state[(key,)] = row | {"body": held["body"]} if held and lacking else row
            added = {
                "__version": f"{self._version:020d}",
                "__op": "d" if gone else "u",
                "__deleted": gone,
                "__unavailable": ["body"] if lacking and not gone else [],
            }
            rows.append(sent | added)
        schema = table.layered.table.schema
        return pa.Table.from_pylist(rows, schema=schema)


def _seen(spark: SparkSession, settings: SparkSettings) -> dict[tuple[Any, ...], dict[str, Any]]:
    rows = spark.read.format("delta").load(settings.lake_table(CAPTURE.path))
    found = latest(rows, ["id"]).select("id", "n", "body").toArrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {(row["id"],): row for row in found}


def test_many_rounds_beside_appends_and_long_readers(
    spark: SparkSession, settings: SparkSettings, tables: CdcTables, table: CdcTable
) -> None:
    history, lock, done = History(3), threading.Lock(), threading.Event()
    failures: list[BaseException] = []
    states: dict[int, dict[tuple[Any, ...], dict[str, Any]]] = {}

    def append() -> None:
        try:
            for _ in range(60):
                with lock:
                    table.updates.append(history.batch(table))
                    states[DeltaTable(settings.lake_table(CAPTURE.path)).version()] = dict(history.state)
        except BaseException as failed:
            failures.append(failed)
        finally:
            done.set()

    def read() -> None:
        """A reader takes a version, and its time: files that compaction replaced meanwhile must still be there."""
        try:
            while not done.is_set():
                with lock:
                    held, expected = DeltaTable(settings.lake_table(CAPTURE.path)), dict(history.state)
                parts = [
                    held.to_pyarrow_table(filters=[("__layer", "=", layer)])
                    for layer in ("primary", "updates")
                ]
                rows = pa.concat_tables(parts).to_pylist(maps_as_pydicts="lossy")
                assert newest(rows, ("id",)) == expected
        except BaseException as failed:
            failures.append(failed)

    table.updates.append(history.batch(table))
    threads = [threading.Thread(target=work) for work in (append, read, read)]
    for thread in threads:
        thread.start()
    rounds = 0
    while not done.is_set() or rounds < 4:
        with lock:
            before = {key: row["n"] for key, row in history.state.items()}
        compact(spark, settings, table.updates)
        if rounds in (1, 3):
            tables.double_buckets(table)
        seen = _seen(spark, settings)
        assert all(key in seen or key not in history.state for key in before)
        rounds += 1
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    compact(spark, settings, table.updates)
    assert _seen(spark, settings) == history.state
    found = stored(CAPTURE.path, settings)
    assert found is not None
    assert found.buckets == 8


def test_vacuum_leaves_what_is_there_and_takes_what_is_not(
    spark: SparkSession, settings: SparkSettings, table: CdcTable
) -> None:
    history, folder = History(4), Path(settings.lake_table(CAPTURE.path))
    for _ in range(5):
        table.updates.append(history.batch(table))
    compact(spark, settings, table.updates)
    table.updates.append(history.batch(table))
    before = len(list(folder.rglob("*.parquet")))
    housekeeping = Housekeeping(settings)
    housekeeping.register(lambda: [CAPTURE.path])
    assert housekeeping.run() == CAPTURE.path
    assert housekeeping.run() is None
    left = [path for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts]
    assert len(left) < before
    assert len(left) == len(DeltaTable(folder).file_uris())
    assert list((folder / "_delta_log").glob("*.checkpoint.parquet"))
    assert _seen(spark, settings) == history.state
    table.updates.append(history.batch(table))
    compact(spark, settings, table.updates)
    assert _seen(spark, settings) == history.state


def test_widening_keeps_every_row_and_what_the_table_is(
    spark: SparkSession, settings: SparkSettings, tables: CdcTables, table: CdcTable
) -> None:
    history = History(5)
    table.updates.append(history.batch(table))
    compact(spark, settings, table.updates)
    table.updates.append(history.batch(table))
    properties = DeltaTable(settings.lake_table(CAPTURE.path)).metadata().configuration
    wider = [pa.field("id", pa.int64()), pa.field("n", pa.int64()), COLUMNS[2], pa.field("x", pa.float64())]
    tables.widen(table, wider)
    held = DeltaTable(settings.lake_table(CAPTURE.path))
    assert held.metadata().configuration == properties
    assert _seen(spark, settings) == history.state
    table.updates.append(history.batch(table))
    compact(spark, settings, table.updates)
    assert _seen(spark, settings) == history.state
    (again,) = CdcTables(spark, settings).discover()
    assert [(field.name, field.type) for field in again.columns] == [(f.name, f.type) for f in wider]
    assert again.key == ("id",)
