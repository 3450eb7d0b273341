"""Some rows of a large table, found by Arrow: a column of ten million keys is looked through in a third of a second.

Spark would plan for longer than that. What is found is as the files hold it; Spark makes of it what holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from lily_spark.config import SparkSettings
from lily_spark.storage.snapshots import TooManyChangesError, VersionGoneError, is_gone, plain
from lily_spark.tables import storage_options

#: More rows than this are not held in memory: all of them are then computed by Spark.
MOST_ROWS = 2_000_000
_READAHEAD = {"batch_readahead": 4, "fragment_readahead": 2}
_VERSION, _LAYER = "__version", "__layer"


@dataclass(frozen=True)
class Snapshot:
    """A table at one version."""

    settings: SparkSettings
    path: str
    version: int

    @cached_property
    def table(self) -> DeltaTable:
        """Raises VersionGoneError when the log does not reach back so far."""
        uri = self.settings.lake_table(self.path).replace("s3a://", "s3://", 1)
        try:
            return DeltaTable(uri, version=self.version, storage_options=storage_options(self.settings))
        except Exception as failed:
            if is_gone(failed):
                raise VersionGoneError(f"version {self.version} of {self.path} is gone") from failed
            raise

    @cached_property
    def schema(self) -> pa.Schema:
        return plain(pa.schema(self.table.schema().to_arrow()))

    def rows(self, columns: Sequence[str], condition: pc.Expression | None = None) -> pa.Table:
        """`columns` of the rows that fit; a column that the table had not yet is left out.

        Raises VersionGoneError when a file is gone, TooManyChangesError beyond MOST_ROWS.
        """
        held = [name for name in columns if name in self.schema.names]
        try:
            scanner = self.table.to_pyarrow_dataset().scanner(columns=held, filter=condition, **_READAHEAD)
            batches, count = [], 0
            for batch in scanner.to_batches():
                count += batch.num_rows
                if count > MOST_ROWS:
                    break
                batches.append(batch)
        except Exception as failed:
            if is_gone(failed):
                raise VersionGoneError(f"files of version {self.version} of {self.path} are gone") from failed
            raise
        if count > MOST_ROWS:
            raise TooManyChangesError(f"more than {MOST_ROWS} rows of {self.path} are concerned")
        wanted = pa.schema([self.schema.field(name) for name in held])
        return pa.Table.from_batches(batches, scanner.projected_schema).cast(wanted)

    def greatest_version(self, layer: str) -> str | None:
        """No row of that layer has a greater `__version`, as the files' statistics say; None when they do not say."""
        actions = pa.table(self.table.get_add_actions(flatten=True))
        name = f"max.{_VERSION}"
        if name not in actions.column_names:
            return None
        of_layer = actions.filter(pc.equal(actions.column(f"partition.{_LAYER}"), layer)).column(name)
        if of_layer.null_count:
            return None
        return str(pc.max(of_layer).as_py() or "")


def among(by: Sequence[str], values: pa.Table, *, null_safe: bool = False) -> pc.Expression:
    """Fits every row whose `by` columns are a row of `values`, and others that agree with one in a single column.

    That column's least and greatest value are named too: files and row groups without any of them are left out.
    """
    counted = {name: pc.count_distinct(values.column(name), mode="all").as_py() for name in by}
    name = max(by, key=lambda column: counted[column])
    column = values.column(name).combine_chunks()
    known = column.drop_null()
    field = pc.field(name)
    found = field.isin(known)
    if len(known) and not pa.types.is_nested(known.type) and not pa.types.is_boolean(known.type):
        ends = pc.min_max(known)
        found = (field >= ends["min"]) & (field <= ends["max"]) & found
    return found | field.is_null() if null_safe and column.null_count else found


def only(rows: pa.Table, by: Sequence[str], values: pa.Table, *, null_safe: bool = False) -> pa.Table:
    """The rows whose `by` columns are a row of `values`."""
    if null_safe:
        wanted = set(map(tuple, zip(*(values.column(name).to_pylist() for name in by), strict=True)))
        given = zip(*(rows.column(name).to_pylist() for name in by), strict=True)
        return rows.filter(pa.array([each in wanted for each in given], pa.bool_()))
    numbers = pa.table(
        [*(rows.column(name) for name in by), pa.array(range(rows.num_rows), pa.int64())], names=[*by, "__n"]
    )
    found = numbers.join(distinct(values.select(list(by))), list(by), join_type="left semi")
    return rows.take(found.column("__n").sort())


def typed(values: pa.Table, by: Sequence[str], schema: pa.Schema) -> pa.Table:
    """`values` with the types that the columns `by` have, by position."""
    columns = [
        column.cast(schema.field(name).type, safe=False)
        for column, name in zip(values.columns, by, strict=True)
    ]
    return pa.table(columns, names=list(by))


def distinct(rows: pa.Table) -> pa.Table:
    """Each row once."""
    return rows.group_by(rows.column_names).aggregate([]).select(rows.column_names)
