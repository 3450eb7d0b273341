"""silver.assets as its readers see it: both layers united, the newest of each register, and assets made of registers.

`assets_latest` is the twin of `lily_common.state.assemble` in Spark SQL, for the columns that people query; a property
test holds the two equal.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lily_common import events as ev
from lily_common.state import DELETED, DERIVED_KINDS, INHERITED
from lily_spark.layered import united
from lily_spark.transforms.registers import KEY, newest

#: Fields of the core aspect that are columns, and whether they are lists.
_FIELDS = {
    "asset_type": False,
    "name": False,
    "parent": False,
    "description": False,
    "data_type": False,
    "owners": True,
    "terms": True,
}
_CORE = "aspect|core"


def registers_latest(silver: DataFrame) -> DataFrame:
    """The newest row of each (tenant, subject, register) over both layers.

    `silver`: rows of silver.assets. Some that were picked out of it and say no layer are folded, all of them.
    """
    return united(silver, KEY, newest, layer="layer") if "layer" in silver.columns else newest(silver)


def assets_latest(silver: DataFrame) -> DataFrame:
    """One row an asset: tenant, qualified_name, the core fields, tags (effective, sorted), deleted, version.

    A deleted asset keeps its row, with `deleted` true and nothing else visible.
    """
    latest = registers_latest(silver)
    tombstones = latest.where(F.col("register") == DELETED).select(
        *KEY[:2], F.col("version").alias("tombstone")
    )
    rows = latest.join(tombstones, list(KEY[:2]), "left").withColumn(
        "live", (F.col("register") != DELETED) & (F.col("version") > F.coalesce("tombstone", F.lit("")))
    )
    core = F.col("live") & (F.col("register") == _CORE)
    field = F.col("live") & F.col("register").startswith("field|core|")
    tag = F.col("live") & F.col("register").startswith("tag|") & (F.col("type") == ev.TAG_ATTACHED)
    # What came by propagation or by a rule says nothing of whether the asset itself is there.
    may_be = F.col("register").startswith("tag|") | F.col("register").startswith(f"field|{INHERITED}|")
    kind = F.when(may_be, F.get_json_object("data", "$.origin_kind"))
    derived = F.coalesce(kind.isin(*DERIVED_KINDS), F.lit(False))
    held = F.struct("version", "type", "data")
    grouped = rows.groupBy(*KEY[:2]).agg(
        F.max("version").alias("version"),
        F.max(F.col("live") & ~derived).alias("exists"),
        F.max(F.col("tombstone").isNotNull()).alias("ended"),
        F.max(F.when(core, held)).alias("core"),
        F.map_from_entries(
            F.collect_list(F.when(field, F.struct(F.expr("substring(register, 12)"), held)))
        ).alias("patches"),
        F.array_sort(F.collect_set(F.when(tag, F.split_part("register", F.lit("|"), F.lit(2))))).alias(
            "tags"
        ),
    )
    fields = [_field(name, is_list).alias(name) for name, is_list in _FIELDS.items()]
    return grouped.select(
        "tenant",
        F.col("subject").alias("qualified_name"),
        *fields,
        "tags",
        (F.col("ended") & ~F.col("exists")).alias("deleted"),
        "version",
    )


def _field(name: str, is_list: bool) -> Column:
    """The patch's value when it is newer than the aspect's upsert, else the upsert's."""
    patch = F.try_element_at("patches", F.lit(name))
    newer = patch.isNotNull() & (F.col("core").isNull() | (patch["version"] > F.col("core")["version"]))
    return F.when(newer, _patched(patch, name, is_list)).otherwise(
        _read(F.col("core")["data"], name, is_list)
    )


def _patched(patch: Column, name: str, is_list: bool) -> Column:
    """`unset` wins over `set`; owner, description and term changes hold the field itself."""
    unset = F.array_contains(F.from_json(F.get_json_object(patch["data"], "$.unset"), "array<string>"), name)
    from_set = _read(F.get_json_object(patch["data"], "$.set"), name, is_list)
    own = _read(patch["data"], name, is_list)
    value = F.when(F.coalesce(unset, F.lit(False)), F.lit(None)).otherwise(from_set)
    return F.when(patch["type"] == ev.ASSET_PATCHED, value).otherwise(own)


def _read(data: Column, name: str, is_list: bool) -> Column:
    value = F.get_json_object(data, f"$.{name}")
    return F.from_json(value, "array<string>") if is_list else value
