"""Heartbeats among the changes: fan-out carries them, nobody else takes them for anything."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lily_common.heartbeats import KEY_PREFIX


def is_heartbeat() -> Column:
    """Whether a row's `key` is a heartbeat's; never null."""
    return F.coalesce(F.col("key").startswith(F.lit(KEY_PREFIX)), F.lit(False))


def without_heartbeats(messages: DataFrame) -> DataFrame:
    """The messages that say something."""
    return messages.where(~is_heartbeat())
