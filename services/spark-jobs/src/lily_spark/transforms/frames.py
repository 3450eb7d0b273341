"""Arrow's tables as Spark's frames."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession


def spark_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The rows, all of them: Spark 4.2 ends such a frame at the first empty batch, and a filter may well leave one.

    What becomes a frame goes through here, and not to `createDataFrame` itself.
    """
    return spark.createDataFrame(rows.combine_chunks())
