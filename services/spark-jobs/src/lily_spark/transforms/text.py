"""Bytes of a Kafka message as text."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def text(column: Column) -> Column:
    """Those bytes as a string of valid UTF-8: what is none of it becomes U+FFFD.

    Spark casts any bytes to a string; Arrow, Python and Delta's client refuse such a one, and a query with it.
    """
    return F.make_valid_utf8(column.cast("string"))
