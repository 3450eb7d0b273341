"""Kafka messages of `lily.changes.*` to event rows; what cannot be read keeps its row, with the reason in `problem`."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lily_common import events as ev
from lily_spark.transforms.text import text

#: Longest text that may become a partition value or a key; the API's own limit is lower.
_ENVELOPE = (
    "id STRING, source STRING, type STRING, subject STRING, time STRING, tenantid STRING, lane STRING, "
    "acceptedtime STRING, stateversion STRING, data STRING, _corrupt_record STRING"
)
_VERSION = r"^\d{17}\.\d{20}\..+"
_TYPES = tuple(ev.EVENT_TYPES)
#: Attributes that must hold text, in the order in which they are named as missing.
_REQUIRED = ("tenantid", "id", "source", "type", "subject", "lane", "stateversion")
#: Fields of `data` without which an event of that type writes no register.
_KEY_FIELDS = {
    "tag": (ev.TAG_ATTACHED, ev.TAG_DETACHED),
    "incident_id": (ev.INCIDENT_OPENED, ev.INCIDENT_UPDATED, ev.INCIDENT_RESOLVED),
    "upstream": (ev.EDGE_ADDED, ev.EDGE_REMOVED),
    "property": (ev.PROPERTY_INHERITED,),
}


def parse(messages: DataFrame) -> DataFrame:
    """Event rows of Kafka rows (key, value, topic, partition, offset, timestamp); one row out for each row in.

    Columns: those of bronze.events, `data` (the payload's JSON text) and, for messages that cannot be processed,
    `problem` (the reason), `key` and `raw` (the message as it was); their `id` is the message's place in Kafka.
    """
    event = text(F.col("value"))
    options = {"columnNameOfCorruptRecord": "_corrupt_record"}
    read = messages.select(
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        F.col("timestamp").alias("kafka_time"),
        event.alias("event"),
        F.from_json(event, _ENVELOPE, options).alias("e"),
    )
    judged = read.withColumns(
        {
            "problem": _problem(),
            "effective": F.col("e.time").try_cast("timestamp"),
            "accepted": F.col("e.acceptedtime").try_cast("timestamp"),
        }
    )
    broken = F.col("problem").isNotNull()
    place = F.concat_ws("/", "topic", F.col("partition").cast("string"), F.col("offset").cast("string"))
    return judged.select(
        F.when(broken, F.lit("")).otherwise(F.col("e.tenantid")).alias("tenant"),
        F.to_date("accepted").alias("date"),
        F.when(broken, place).otherwise(F.col("e.id")).alias("id"),
        F.when(broken, F.lit("")).otherwise(F.col("e.source")).alias("source"),
        F.col("e.type").alias("type"),
        F.col("e.subject").alias("subject"),
        F.col("effective").alias("time"),
        F.col("accepted").alias("accepted_time"),
        F.col("e.lane").alias("lane"),
        F.col("e.stateversion").alias("version"),
        "event",
        "topic",
        "partition",
        "offset",
        "kafka_time",
        F.col("e.data").alias("data"),
        "problem",
        F.when(broken, F.col("key")).alias("key"),
        F.when(broken, F.col("value")).alias("raw"),
    )


def _problem() -> Column:
    """Why a message cannot be processed; null when it can. The first that holds is named."""
    first: list[tuple[Column, str]] = [
        (F.col("value").isNull(), "no value"),
        (F.col("e").isNull() | F.col("e._corrupt_record").isNotNull(), "not a JSON object"),
    ]
    missing = [(_empty(F.col(f"e.{name}")), f"{name} is missing") for name in _REQUIRED]
    then = [
        (~F.col("e.type").isin(*_TYPES), "unknown type"),
        (F.col("e.time").try_cast("timestamp").isNull(), "time cannot be read"),
        (F.col("e.acceptedtime").try_cast("timestamp").isNull(), "acceptedtime cannot be read"),
        (~F.col("e.stateversion").rlike(_VERSION), "stateversion cannot be read"),
        (~F.coalesce(F.col("e.data").startswith("{"), F.lit(False)), "data is not a JSON object"),
    ]
    keyless = [
        (
            F.col("e.type").isin(*types) & _empty(F.get_json_object("e.data", f"$.{name}")),
            f"data.{name} is missing",
        )
        for name, types in _KEY_FIELDS.items()
    ]
    rules = [*first, *missing, *then, *keyless]
    start = F.when(rules[0][0], F.lit(rules[0][1]))
    return reduce(lambda chain, rule: chain.when(rule[0], F.lit(rule[1])), rules[1:], start)


def _empty(column: Column) -> Column:
    return F.coalesce(column, F.lit("")) == ""
