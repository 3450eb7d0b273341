"""A Delta table's versions without Spark: which there is now, which rows were changed since another, what it says of itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from lily_spark.config import SparkSettings
from lily_spark.tables import storage_options


class VersionGoneError(LookupError):
    """A version that is needed is in the lake no more."""


class TooManyChangesError(OverflowError):
    """More changed rows than a refresh takes up one by one."""


#: What a change was: insert, delete, update_preimage, update_postimage.
CHANGE = "_change_type"
#: What deltalake, Spark and Delta say of a version whose log or files are gone.
_GONE = (
    "FILE_NOT_EXIST",
    "FileNotFound",
    "VERSION_NOT_FOUND",
    "LOG_FILE_NOT_FOUND",
    "VERSION_INVALID",
    "not found",
    "No such file",
    "Invalid table version",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
)


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


def changes(
    settings: SparkSettings,
    path: str,
    span: Span,
    columns: Sequence[str],
    limit: int,
    *,
    kinds: bool = False,
) -> pa.Table:
    """`columns` of every row that was appended, changed or deleted in the span's versions; with `kinds` CHANGE, too.

    Rewrites of files are no change.

    Raises VersionGoneError when the log or a file of these versions is gone, TooManyChangesError beyond `limit` rows.
    """
    table = open_snapshot(settings, path)
    if table is None:
        raise VersionGoneError(f"{path} is gone")
    schema = pa.schema(table.schema().to_arrow())
    held = [name for name in columns if name in schema.names]
    wanted = pa.schema([schema.field(name) for name in held])
    if kinds:
        held.append(CHANGE)
        wanted = wanted.append(pa.field(CHANGE, pa.string()))
    batches: list[pa.RecordBatch] = []
    if span.first <= span.last:
        try:
            batches = list(_up_to(limit, table.load_cdf(span.first, span.last, columns=held)))
        except TooManyChangesError:
            raise
        except Exception as failed:  # deltalake's readers raise no type of their own
            if is_gone(failed):
                raise VersionGoneError(f"changes of {path} from version {span.first} on are gone") from failed
            raise
    read = pa.Table.from_batches(batches).select(held) if batches else wanted.empty_table()
    return read.cast(plain(read.schema))


def _up_to(limit: int, reader: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    """The reader's batches. Raises TooManyChangesError once they hold more than `limit` rows."""
    rows = 0
    for batch in reader:
        found = pa.record_batch(batch)
        rows += found.num_rows
        if rows > limit:
            raise TooManyChangesError(f"there are more than {limit} changed rows")
        yield found


def is_gone(failed: Exception) -> bool:
    """Whether a reader failed because a version's log or files are there no more."""
    return any(word in str(failed) for word in _GONE)


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


def plain(schema: pa.Schema) -> pa.Schema:
    """A schema without views, deltalake's way to hold text: as Spark takes it."""
    return pa.schema([pa.field(field.name, _plain_type(field.type)) for field in schema])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    return kind
