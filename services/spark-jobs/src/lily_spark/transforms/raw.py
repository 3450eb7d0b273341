"""Messages of `lily.raw` to rows of bronze.raw."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lily_spark.transforms.text import text


def raw_rows(messages: DataFrame) -> DataFrame:
    """(request_id, tenant, date, received_time, path, headers, body) of Kafka rows read with their headers.

    A message without a readable `received_time` gets Kafka's own time: the archive keeps whatever came.
    """
    received = F.coalesce(_header("received_time").try_cast("timestamp"), F.col("timestamp"))
    return messages.select(
        text(F.col("key")).alias("request_id"),
        F.coalesce(_header("tenant"), F.lit("")).alias("tenant"),
        F.to_date(received).alias("date"),
        received.alias("received_time"),
        F.coalesce(_header("path"), F.lit("")).alias("path"),
        F.from_json(_header("headers"), "map<string,string>").alias("headers"),
        F.col("value").alias("body"),
    )


def _header(name: str) -> Column:
    """The text of the first message header of that name; null when there is none."""
    named = F.filter("headers", lambda header: header["key"] == F.lit(name))
    return text(F.try_element_at(named, F.lit(1))["value"])
