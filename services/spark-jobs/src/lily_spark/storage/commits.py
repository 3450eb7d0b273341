"""Delta's log as files: what a table is made of, and commits that name files and nothing else.

For what rewrites files without changing what they say, or what nobody may read again. Delta's protocol:
https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lily_spark.config import SparkSettings

#: Creates the file of a commit unless there is one: (path, lines) -> whether it did.
PutIfAbsent = Callable[[str, list[str]], bool]
Action = dict[str, Any]


def put_if_absent(spark: SparkSession, settings: SparkSettings) -> PutIfAbsent:
    """By the log store that every writer of the lake uses, so that no commit is lost to another."""

    def put(path: str, lines: list[str]) -> bool:
        jvm: Any = spark.sparkContext._jvm
        hadoop = spark.sparkContext._jsc.hadoopConfiguration()
        on_s3 = settings.lake_uri.startswith("s3")
        store = jvm.lily.storage.ConditionalLogStore if on_s3 else jvm.io.delta.storage.LocalLogStore
        target = jvm.org.apache.hadoop.fs.Path(settings.lake_table(path))
        try:
            store(hadoop).write(target, jvm.java.util.ArrayList(lines).iterator(), False, hadoop)
        except Exception as failed:
            if "FileAlreadyExists" in str(failed):
                return False
            raise
        return True

    return put


def added(path: str, values: Action, rows: pa.Table, size: int, columns: frozenset[str]) -> Action:
    """The add action of a file with these rows (without partition columns); `columns` are those with statistics."""
    return {
        "path": path,
        "partitionValues": values,
        "size": size,
        "modificationTime": int(time.time() * 1000),
        "dataChange": False,
        "stats": orjson.dumps(_stats(rows, columns)).decode(),
    }


def removed(add: Action) -> Action:
    """The remove action for a file of `live`."""
    return {
        "path": add["path"],
        "deletionTimestamp": int(time.time() * 1000),
        "dataChange": False,
        "extendedFileMetadata": True,
        "partitionValues": add["partitionValues"],
        "size": add["size"],
    }


def lines(info: Action, out: Sequence[Action], into: Sequence[Action]) -> list[str]:
    """A commit's lines: its information, the files that go, the files that come."""
    told = {"timestamp": int(time.time() * 1000), "isBlindAppend": False, **info}
    actions = [{"commitInfo": told}, *({"remove": one} for one in out), *({"add": one} for one in into)]
    return [orjson.dumps(action).decode() for action in actions]


def stats_columns(table: DeltaTable) -> frozenset[str]:
    """Columns that the table keeps statistics of."""
    named = table.metadata().configuration.get("delta.dataSkippingStatsColumns", "")
    return frozenset(filter(None, (name.strip(" `") for name in named.split(","))))


def live(table: DeltaTable) -> list[Action]:
    """path (as the log has it), size and partitionValues of the table's files."""
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return [
        {
            "path": action["path"],
            "size": action["size_bytes"],
            "partitionValues": {
                name.partition(".")[2]: _partition_text(value)
                for name, value in action.items()
                if name.startswith("partition.")
            },
        }
        for action in actions
    ]


def _partition_text(value: Any) -> str | None:
    return None if value is None else value.isoformat() if isinstance(value, date) else str(value)


def typed(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """With the table's own types: Spark writes some times in a form that others must not."""
    held = [columns.field(name) for name in rows.column_names]
    return rows.cast(pa.schema([pa.field(field.name, _storable(field.type)) for field in held]))


def _storable(kind: pa.DataType) -> pa.DataType:
    """Plain forms of the view types that deltalake answers with."""
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_storable(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_storable(kind.key_type), _storable(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _storable(part.type)) for part in kind])
    return kind


def _stats(rows: pa.Table, columns: frozenset[str]) -> dict[str, Any]:
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in rows.column_names:
        kind = rows.schema.field(name).type
        plain = pa.types.is_string(kind) or pa.types.is_timestamp(kind) or pa.types.is_integer(kind)
        if name not in columns or not plain:
            continue
        ends = pc.min_max(rows[name]).as_py()
        nulls[name] = rows[name].null_count
        if ends["min"] is not None:
            least[name], greatest[name] = _stat(ends["min"], up=False), _stat(ends["max"], up=True)
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _stat(value: Any, *, up: bool) -> Any:
    """Statistics know milliseconds: a greatest value is rounded up."""
    if not isinstance(value, datetime):
        return value
    moment = value.astimezone(UTC)
    moment += timedelta(microseconds=-moment.microsecond % 1000 if up else -(moment.microsecond % 1000))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
