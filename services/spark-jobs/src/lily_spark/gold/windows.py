"""A source read by its changes alone: the newest state of the rows that changed in a span of versions."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lily_spark.cdc.tables import newest, quoted
from lily_spark.gold.snapshots import CHANGE, Span, changes
from lily_spark.gold.sources import UNAVAILABLE, RowSource

_HELD = ("__version", "__deleted", UNAVAILABLE, "__known")
_ROWS = ["insert", "update_postimage"]


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
    found = changes(source.settings, source.path, span, wanted, limit, kinds=True)
    # What was taken out of the files themselves (an erasure, a table emptied) is no row.
    there = found.filter(pc.is_in(found.column(CHANGE), pa.array(_ROWS))).drop_columns([CHANGE])
    rows = source.spark.createDataFrame(there)
    if values is not None:
        rows = rows.join(F.broadcast(values), list(by), "left_semi")
    there = newest(rows, source.key).where("NOT __deleted")
    return there.select(*map(quoted, dict.fromkeys([*columns, *by])), UNAVAILABLE)
