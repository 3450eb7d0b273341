"""Assets and edges as tables: what is known of every asset, and its upstreams. Deleted ones are left out."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lily_common import events as ev
from lily_common.state import DELETED
from lily_spark.transforms.latest import assets_latest, registers_latest

EDGE, INCIDENT = "edge|", "incident|"
_OPEN = (ev.INCIDENT_OPENED, ev.INCIDENT_UPDATED)
#: What an asset's name begins with up to its database: platform, authority, first part.
_DATABASE = r"^([^:/]+://[^/]*/[^/]+)"


def asset_rows(silver: DataFrame) -> DataFrame:
    """One row an asset that is there: the columns of `assets_latest`, `database`, `open_incidents` and `upstreams`.

    `silver`: all registers of the assets, of both layers.
    """
    counts = (
        _live(silver)
        .groupBy("tenant", "subject")
        .agg(
            F.count_distinct(F.when(_is_open(), F.col("register"))).alias("open_incidents"),
            F.count_distinct(F.when(_is_edge(), F.split_part("register", F.lit("|"), F.lit(2)))).alias(
                "upstreams"
            ),
        )
        .withColumnRenamed("subject", "qualified_name")
    )
    database = F.nullif(F.regexp_extract("qualified_name", _DATABASE, 1), F.lit(""))
    none = F.array().cast("array<string>")
    return (
        assets_latest(silver)
        .where("NOT deleted")
        .join(counts, ["tenant", "qualified_name"], "left")
        .withColumn("database", database)
        .withColumn("owners", F.coalesce("owners", none))
        .withColumn("terms", F.coalesce("terms", none))
        .withColumn("tags", F.coalesce("tags", none))
        .withColumn("open_incidents", F.coalesce("open_incidents", F.lit(0)))
        .withColumn("upstreams", F.coalesce("upstreams", F.lit(0)))
        .drop("deleted", "version")
    )


def edge_rows(silver: DataFrame) -> DataFrame:
    """One row an edge that is there: tenant, qualified_name (the one downstream), upstream, via."""
    part = F.split("register", r"\|", 3)
    return (
        _live(silver)
        .where(_is_edge())
        .select(
            "tenant",
            F.col("subject").alias("qualified_name"),
            part.getItem(1).alias("upstream"),
            part.getItem(2).alias("via"),
        )
    )


def _live(silver: DataFrame) -> DataFrame:
    """The newest of each register that no deletion of its asset hides."""
    kept = silver.where(
        (F.col("register") == DELETED)
        | F.col("register").startswith(EDGE)
        | F.col("register").startswith(INCIDENT)
    )
    latest = registers_latest(kept)
    graves = latest.where(F.col("register") == DELETED).select(
        "tenant", "subject", F.col("version").alias("grave")
    )
    seen = F.col("version") > F.coalesce("grave", F.lit(""))
    return latest.where(F.col("register") != DELETED).join(graves, ["tenant", "subject"], "left").where(seen)


def _is_open() -> Column:
    return F.col("register").startswith(INCIDENT) & F.col("type").isin(*_OPEN)


def _is_edge() -> Column:
    return F.col("register").startswith(EDGE) & (F.col("type") == ev.EDGE_ADDED)
