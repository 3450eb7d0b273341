"""Fan-out's one decision: which messages are worth telling."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lily_common.events import FANOUT_TYPES
from lily_spark.transforms.heartbeats import is_heartbeat


def notices(changes: DataFrame) -> DataFrame:
    """Messages (key, value) of `lily.changes.*` whose event type is carried by fan-out, unchanged, and heartbeats.

    Reads one attribute of the envelope and decodes nothing else; a message that is no JSON is no notice.
    """
    event_type = F.get_json_object(F.col("value").cast("string"), "$.type")
    return changes.where(event_type.isin(*FANOUT_TYPES) | is_heartbeat()).select("key", "value")
