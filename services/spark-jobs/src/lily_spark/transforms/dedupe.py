"""Each event identity once: the streaming half of the promise that bronze holds no repeats.

Two operators in a row. The first remembers (identity, body) and drops what came before word for word: repeats. The
second remembers the identity alone; what it drops got through the first, so it has another body: conflicts. What
each dropped is in Spark's own progress report (`numDroppedDuplicateRows`), at the cost of no further job.

The watermark is on the time of the micro-batch, not of the event: that clock never goes back, so no row is ever
late, however old the event it holds; and an identity is forgotten `days` after the batch that brought it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress

IDENTITY = ("tenant", "source", "id")
_OPERATOR = "dedupeWithinWatermark"


def first_of_each(events: DataFrame, days: int) -> DataFrame:
    """`events` without the rows whose identity came before, within `days` of it; the first in Kafka's order wins.

    The body is what the client says: type, subject and payload. What acceptance stamps may differ in a repeat.
    """
    return (
        events.withColumn("seen_at", F.current_timestamp())
        .withWatermark("seen_at", f"{days} days")
        .withColumn("body", F.xxhash64("type", "subject", "data"))
        .dropDuplicatesWithinWatermark([*IDENTITY, "body"])
        .dropDuplicatesWithinWatermark([*IDENTITY])
        .drop("seen_at", "body")
    )


def dropped(progress: StreamingQueryProgress) -> tuple[int, int]:
    """(repeats, conflicts) of one batch; (0, 0) for a query without the two operators."""
    operators = [found for found in progress.stateOperators if found.operatorName == _OPERATOR]
    if len(operators) != 2:
        return 0, 0
    # Spark lists operators from the sink upwards: the identity's comes before the body's.
    by_identity, by_body = (int(found.customMetrics.get("numDroppedDuplicateRows", 0)) for found in operators)
    return by_body, by_identity
