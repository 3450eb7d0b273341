"""Arrow's tables as Spark's frames: every row, in however many batches."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lily_spark.transforms.frames import spark_frame

SOME = pa.table({"number": [1, 2]})
NONE = SOME.slice(0, 0)


@pytest.mark.parametrize(
    "parts", [[], [SOME], [NONE], [SOME, NONE, SOME], [NONE, SOME, NONE, SOME], [SOME, SOME, NONE]]
)
def test_an_empty_batch_ends_nothing(spark: SparkSession, parts: list[pa.Table]) -> None:
    rows = pa.concat_tables([NONE, *parts])
    found = spark_frame(spark, rows).collect()
    assert [row["number"] for row in found] == rows["number"].to_pylist()
