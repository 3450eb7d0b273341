"""Register rows of event rows, in Spark SQL alone: the twin of `lily_common.state.register_keys`.

A property test holds the two equal. Which registers an event writes is said there; here it is only said again.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lily_common import events as ev
from lily_common.state import DELETED, INHERITED, SEPARATOR

KEY = ("tenant", "subject", "register")
VALUE = ("type", "version", "data", "event_id", "source", "time", "accepted_time")
COLUMNS = (*KEY, *VALUE)

_PAYLOAD = (
    "aspect STRING, `set` STRING, unset ARRAY<STRING>, tag STRING, origin STRING, incident_id STRING, "
    "upstream STRING, via STRING, property STRING"
)
_PATCHES = {ev.OWNER_CHANGED: "owners", ev.DESCRIPTION_CHANGED: "description", ev.TERM_CHANGED: "terms"}


def with_keys(events: DataFrame) -> DataFrame:
    """`events` (type, source, data) with `registers`: the keys of the registers that each writes, perhaps none."""
    return events.withColumn("d", F.from_json("data", _PAYLOAD)).withColumn("registers", _keys()).drop("d")


def registers(events: DataFrame) -> DataFrame:
    """COLUMNS, one row for each register that an event writes on its subject (none for row changes).

    `events`: tenant, subject, type, version, data, id, source, time, accepted_time.
    """
    return (
        with_keys(events)
        .withColumn("register", F.explode("registers"))
        .select(
            *KEY, "type", "version", "data", F.col("id").alias("event_id"), "source", "time", "accepted_time"
        )
    )


def newest(rows: DataFrame) -> DataFrame:
    """The row with the greatest version of each (tenant, subject, register); other columns than COLUMNS are dropped.

    Versions compare as bytes, which is how Spark compares strings.
    """
    value = F.max_by(F.struct(*VALUE), "version").alias("newest")
    return rows.groupBy(*KEY).agg(value).select(*KEY, "newest.*")


def without_buried(rows: DataFrame, is_grave: Column) -> DataFrame:
    """`rows` (each register once) without deletions that are graves by now, and without what they hid.

    Until then a tombstone stays, so that an event that comes late brings nothing back to life.
    """
    whole_asset = Window.partitionBy("tenant", "subject")
    grave = F.max(F.when(is_grave, F.col("version"))).over(whole_asset)
    alive = F.coalesce(F.col("version") > F.col("grave"), F.lit(True))
    return rows.withColumn("grave", grave).where(alive).drop("grave")


def _keys() -> Column:
    """The array of register keys of one event, empty for a type that writes none."""
    aspect = _or(F.col("d.aspect"), "core")
    chain = (
        F.when(F.col("type") == ev.ASSET_UPSERTED, F.array(_key(F.lit("aspect"), aspect)))
        .when(F.col("type") == ev.ASSET_PATCHED, _patched(aspect))
        .when(F.col("type") == ev.ASSET_DELETED, F.array(F.lit(DELETED)))
        .when(
            F.col("type") == ev.PROPERTY_INHERITED,
            F.array(_key(F.lit("field"), F.lit(INHERITED), F.col("d.property"))),
        )
        .when(
            F.col("type").isin(ev.TAG_ATTACHED, ev.TAG_DETACHED),
            F.array(_key(F.lit("tag"), F.col("d.tag"), _or(F.col("d.origin"), "direct"))),
        )
        .when(
            F.col("type").isin(ev.INCIDENT_OPENED, ev.INCIDENT_UPDATED, ev.INCIDENT_RESOLVED),
            F.array(_key(F.lit("incident"), F.col("source"), F.col("d.incident_id"))),
        )
        .when(
            F.col("type").isin(ev.EDGE_ADDED, ev.EDGE_REMOVED),
            F.array(_key(F.lit("edge"), F.col("d.upstream"), _or(F.col("d.via"), ""))),
        )
    )
    for event_type, field in _PATCHES.items():
        chain = chain.when(
            F.col("type") == event_type, F.array(F.lit(SEPARATOR.join(("field", "core", field))))
        )
    return chain.otherwise(F.array().cast("array<string>"))


def _patched(aspect: Column) -> Column:
    """A register per field that is set to something or unset."""
    values = F.from_json("d.set", "MAP<STRING, STRING>")
    given = F.map_keys(F.map_filter(values, lambda _, value: value.isNotNull()))
    nothing = F.array().cast("array<string>")
    unset = F.filter(F.coalesce(F.col("d.unset"), nothing), lambda name: name.isNotNull())
    names = F.array_union(F.coalesce(given, nothing), unset)
    return F.transform(names, lambda name: _key(F.lit("field"), aspect, name))


def _key(*parts: Column) -> Column:
    return F.concat_ws(SEPARATOR, *parts)


def _or(column: Column, default: str) -> Column:
    """Python's `column or default`: null and empty give the default."""
    return F.when(F.coalesce(column, F.lit("")) == "", F.lit(default)).otherwise(column)
