"""A source read by its changes alone: the newest state of the rows that changed in a span of versions."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lily_spark.cdc.tables import newest, quoted
from lily_spark.gold.snapshots import Span, changes
from lily_spark.gold.sources import UNAVAILABLE, RowSource

_HELD = ("__version", "__deleted", UNAVAILABLE, "__known")


def window_rows(
    source: RowSource,
    span: Span,
    columns: Sequence[str],
    by: Sequence[str],
    values: DataFrame | None,
    limit: int,
) -> DataFrame:
    """As `Source.rows`, of the keys alone that the span changed."""
    wanted = list(dict.fromkeys([*source.key, *columns, *by, *_HELD]))
    rows = source.spark.createDataFrame(changes(source.settings, source.path, span, wanted, limit))
    if values is not None:
        rows = rows.join(F.broadcast(values), list(by), "left_semi")
    there = newest(rows, source.key).where("NOT __deleted")
    return there.select(*map(quoted, dict.fromkeys([*columns, *by])), UNAVAILABLE)
