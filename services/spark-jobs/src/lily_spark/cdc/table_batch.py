"""One table's part of a micro-batch: its shape settled, its rows folded to one a key, appended, mirrored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lily_spark.cdc.connect import RefusedError, parse
from lily_spark.cdc.evolution import evolve
from lily_spark.cdc.registry import CdcTable, CdcTables
from lily_spark.cdc.rows import PLACE, PROBLEM, events, rows
from lily_spark.cdc.shape import Shape, shape
from lily_spark.cdc.tables import newest
from lily_spark.cdc.topics import Capture

_REFUSED = pa.schema(
    {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), PROBLEM: pa.string()}
)
#: Takes rows (folded, with Lily's own columns) and the table's key; returns how many it wrote.
Mirror = Callable[[pa.Table, tuple[str, ...]], int]


@dataclass(frozen=True)
class Outcome:
    """What became of a table's part: keys written, and the places and reasons of messages that could not be taken.

    `last` is the greatest version written.
    """

    capture: Capture
    rows: int
    refused: pa.Table
    last: str = ""


class TableBatch:
    """`parts` are the batch's envelopes, `shapes` those of this table with a sample of their schemas."""

    def __init__(
        self,
        spark: SparkSession,
        tables: CdcTables,
        capture: Capture,
        parts: DataFrame,
        shapes: Sequence[Row],
    ) -> None:
        self._spark = spark
        self._tables = tables
        self._capture = capture
        self._parts = parts.where(F.col("topic") == capture.topic)
        self._shapes = shapes
        self._truncated = ""

    def write(self, mirror: Mirror) -> Outcome:
        """Return when the rows are durable. The refused are not written anywhere yet."""
        taken, refused = self._settle()
        table = self._tables.get(self._capture)
        if table is None:
            return Outcome(self._capture, 0, _together(refused))
        if self._truncated:
            self._tables.truncate(table, self._truncated)
        written, last = 0, ""
        for part in self._parts_of(table, taken, refused):
            table.updates.append(part)
            mirror(part, table.key)
            written, last = written + part.num_rows, max(last, pc.max(part["__version"]).as_py() or "")
        return Outcome(self._capture, written, _together(refused), last)

    def _parts_of(
        self, table: CdcTable, taken: list[tuple[Row, Shape]], refused: list[pa.Table]
    ) -> Iterator[pa.Table]:
        """What is to be appended: the rows that came, folded; then, after a TRUNCATE, tombstones for what it took."""
        if taken:
            parsed = [rows(self._parts.where(_of(row)), held, table.columns) for row, held in taken]
            found = _folded(reduce(DataFrame.unionAll, parsed), table).toArrow()
            refused.append(_refused(self._capture, found.filter(pc.is_valid(found[PROBLEM]))))
            yield found.filter(pc.is_null(found[PROBLEM])).drop_columns([PROBLEM, "partition", "offset"])
        if self._truncated:
            yield from self._tables.buried(table)

    def refuse_all(self, reason: str) -> Outcome:
        return Outcome(self._capture, 0, self._places(self._parts, reason))

    def _settle(self) -> tuple[list[tuple[Row, Shape]], list[pa.Table]]:
        """Bring the table's columns in line with each shape in turn; (what can be taken, what cannot)."""
        taken: list[tuple[Row, Shape]] = []
        refused: list[pa.Table] = []
        for row in self._shapes:
            if row[PROBLEM] is None and row["ks"] is None:
                refused.append(self._without_key(row))
                continue
            try:
                made = _shape(row)
                self._prepare(made)
            except RefusedError as why:
                refused.append(self._places(self._parts.where(_of(row)), str(why)))
            else:
                taken.append((row, made))
        return taken, refused

    def _without_key(self, row: Row) -> pa.Table:
        """A TRUNCATE has no key; anything else without one is refused (its places are returned)."""
        messages = self._parts.where(_of(row))
        try:
            found = events(messages, parse(row["vs"])).toArrow()
        except RefusedError as why:
            return self._places(messages, str(why))
        whole = pc.equal(pc.fill_null(found["op"], ""), "t")
        self._truncated = max([self._truncated, *found.filter(whole)["version"].to_pylist()])
        others = found.filter(pc.invert(whole))
        reason = pa.array(["no primary key"] * others.num_rows, pa.string())
        return _refused(self._capture, others.append_column(PROBLEM, reason))

    def _prepare(self, made: Shape) -> None:
        """The table exists and has columns for rows of this shape. Raises RefusedError when that would do harm."""
        coming = [column.field for column in made.columns]
        table = self._tables.get(self._capture)
        if table is None:
            self._tables.create(self._capture, made.key_names, coming)
            return
        if set(made.key_names) != set(table.key):
            raise RefusedError(
                f"the primary key was ({', '.join(table.key)}) and is now ({', '.join(made.key_names)})"
            )
        change = evolve(table.columns, coming)
        if change.widened:
            self._tables.widen(table, change.columns)
        elif change.added:
            self._tables.add_columns(table, change.added)

    def _places(self, messages: DataFrame, reason: str) -> pa.Table:
        return messages.select(*PLACE, F.lit(reason).alias(PROBLEM)).toArrow().cast(_REFUSED)


def _shape(row: Row) -> Shape:
    """Raises RefusedError."""
    if row[PROBLEM] is not None:
        raise RefusedError(row[PROBLEM])
    return shape(parse(row["ks"]), parse(row["vs"]))


def _of(row: Row) -> str:
    """The envelopes that this row of shapes stands for."""
    if row[PROBLEM] is not None:
        return f"{PROBLEM} IS NOT NULL AND shape = {row['shape']}"
    return f"{PROBLEM} IS NULL AND shape = {row['shape']}"


def _folded(parsed: DataFrame, table: CdcTable) -> DataFrame:
    """One row a key of those without a problem, and every one that has one, with its place."""
    fine = parsed.where(f"{PROBLEM} IS NULL AND __version > '{table.truncated}'")
    broken = parsed.where(f"{PROBLEM} IS NOT NULL")
    whole = newest(fine.drop("partition", "offset", PROBLEM), table.key).selectExpr(
        "*",
        "CAST(NULL AS int) AS partition",
        "CAST(NULL AS bigint) AS offset",
        f"CAST(NULL AS string) AS {PROBLEM}",
    )
    return whole.unionByName(broken)


def _refused(capture: Capture, broken: pa.Table) -> pa.Table:
    columns = broken.select(["partition", "offset", PROBLEM])
    topic = pa.array([capture.topic] * columns.num_rows, pa.string())
    return columns.add_column(0, "topic", topic).cast(_REFUSED)


def _together(refused: list[pa.Table]) -> pa.Table:
    tables = [table for table in refused if table.num_rows]
    return pa.concat_tables(tables) if tables else _REFUSED.empty_table()
