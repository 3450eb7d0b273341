"""The documented SQL of `<table>_latest` shows what Spark's own `latest` shows, in DuckDB and in Spark SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lily_spark.cdc.tables import latest, row_table
from lily_spark.cdc.views import latest_sql
from lily_spark.config import SparkSettings
from lily_spark.sinks.layers import UpdatesLayer

COLUMNS = [
    pa.field("id", pa.int32()),
    pa.field("n", pa.int32()),
    pa.field("body", pa.string()),
    pa.field("tags", pa.list_(pa.string())),
]
LAYERED = row_table("cdc/acme/shop/public.t", ["id"], COLUMNS, buckets=2)


def _row(key: int, version: int, **values: Any) -> dict[str, Any]:
    row = {"id": key, "__version": f"{version:020d}", "__op": "u", "__deleted": False, "__unavailable": []}
    return row | values


#: A value left out, one filled in from an older row and then found to be older than another, a null, a delete, a return.
ROWS = [
    _row(1, 1, n=1, body="old", tags=["a"]),
    _row(1, 3, n=3, body=None, tags=None, __unavailable=["body"]),
    _row(2, 5, n=2, body="one", tags=["x"], __known=[("body", f"{1:020d}")]),
    _row(2, 4, n=1, body="four", tags=["y"]),
    _row(3, 1, n=1, body="b"),
    _row(3, 2, __deleted=True),
    _row(4, 1, __deleted=True),
    _row(4, 2, n=None, body=None, __unavailable=["body", "tags"]),
]
EXPECTED = {1: (3, "old", None), 2: (2, "four", ["x"]), 4: (None, None, None)}


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    settings = SparkSettings.model_validate({"LAKE_URI": str(tmp_path)})
    UpdatesLayer(settings, LAYERED).append(pa.Table.from_pylist(ROWS, schema=LAYERED.table.schema))
    return DeltaTable(LAYERED.table.uri(settings))


def test_duckdb_sees_the_latest_rows(table: DeltaTable) -> None:
    connection = duckdb.connect()
    connection.register("ratings", table.to_pyarrow_dataset())
    connection.execute(
        f"CREATE TEMP VIEW ratings_latest AS {latest_sql('ratings', LAYERED.table.schema, ['id'], 'duckdb')}"
    )
    found = connection.execute("SELECT id, n, body, tags FROM ratings_latest").fetchall()
    assert {row[0]: row[1:] for row in found} == EXPECTED
    columns = [column[0] for column in connection.execute("SELECT * FROM ratings_latest").description]
    assert columns == ["id", "n", "body", "tags", "__version", "__source_time"]


def test_spark_says_the_same_by_sql_and_by_function(spark: SparkSession, table: DeltaTable) -> None:
    rows = spark.createDataFrame(table.to_pyarrow_table())
    rows.createOrReplaceTempView("ratings")
    by_sql = spark.sql(latest_sql("ratings", LAYERED.table.schema, ["id"], "spark"))
    for found in (by_sql, latest(rows, ["id"])):
        held = found.select("id", "n", "body", "tags").toArrow().to_pylist()
        assert {row["id"]: (row["n"], row["body"], row["tags"]) for row in held} == EXPECTED
        assert found.columns == ["id", "n", "body", "tags", "__version", "__source_time"]
