"""A Delta table's versions without Spark: which there is now, which rows were changed since another, what it says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from lily_spark.config import SparkSettings
from lily_spark.tables import storage_options


class VersionGoneError(LookupError):
    """A version that is needed is in the lake no more."""


class TooManyChangesError(OverflowError):
    """More changed rows than a refresh takes up one by one."""


@dataclass(frozen=True)
class Span:
    """The versions `first` to `last` of a source. `since` is the version that was processed before."""

    since: int
    first: int
    last: int


def open_snapshot(settings: SparkSettings, path: str) -> DeltaTable | None:
    """The table at `path` in the lake as it is now; None when there is none."""
    uri = settings.lake_table(path).replace("s3a://", "s3://", 1)
    try:
        return DeltaTable(uri, storage_options=storage_options(settings))
    except TableNotFoundError:
        return None


def changes(settings: SparkSettings, path: str, span: Span, columns: Sequence[str], limit: int) -> pa.Table:
    """`columns` of every row that was appended, changed or deleted in the span's versions. Rewrites of files are no change.

    Raises VersionGoneError when the log or a file of these versions is gone, TooManyChangesError beyond `limit` rows.
    """
    table = open_snapshot(settings, path)
    if table is None:
        raise VersionGoneError(f"{path} is gone")
    schema = pa.schema(table.schema().to_arrow())
    held = [name for name in columns if name in schema.names]
    wanted = pa.schema([schema.field(name) for name in held])
    batches: list[pa.RecordBatch] = []
    rows = 0
    if span.first <= span.last:
        try:
            reader = table.load_cdf(span.first, span.last, columns=held)
            for batch in reader:
                found = pa.record_batch(batch)
                batches.append(found.select(held))
                rows += found.num_rows
                if rows > limit:
                    raise TooManyChangesError(f"{path} has more than {limit} changed rows")
        except (DeltaError, OSError, pa.ArrowException) as gone:
            raise VersionGoneError(f"changes of {path} since version {span.first}: {gone}") from gone
    read = pa.Table.from_batches(batches, batches[0].schema) if batches else wanted.empty_table()
    return read.cast(_plain(read.schema))


def version_at(settings: SparkSettings, path: str, moment: datetime) -> int | None:
    """The version that was the newest at `moment`; None when the log does not reach back so far."""
    table = open_snapshot(settings, path)
    if table is None:
        return None
    try:
        table.load_as_version(moment)
    except (DeltaError, OSError):
        return None
    return table.version()


def created_at(settings: SparkSettings, path: str) -> datetime | None:
    """When the table was made."""
    table = open_snapshot(settings, path)
    created = table.metadata().created_time if table is not None else None
    return datetime.fromtimestamp(created / 1000, UTC) if created else None


def row_count(settings: SparkSettings, path: str) -> int:
    """How many rows its files hold, overtaken ones included."""
    table = open_snapshot(settings, path)
    if table is None:
        return 0
    counts = pa.table(table.get_add_actions(flatten=True)).column("num_records").to_pylist()
    return sum(int(count or 0) for count in counts)


def _plain(schema: pa.Schema) -> pa.Schema:
    """Views (deltalake's way to hold text) as what Spark takes."""
    return pa.schema([pa.field(field.name, _plain_type(field.type)) for field in schema])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    return kind
