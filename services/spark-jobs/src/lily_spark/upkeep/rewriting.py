"""A compaction by Arrow: Spark folds the few rows whose keys have changed, files are rewritten around them as they stand.

As a Spark job every row of every touched bucket is decoded into JVM rows, moved to its bucket's task, sorted and
encoded; here each bucket's file is read, the changed rows are exchanged and it is written again, by C++ and by bucket,
several at a time. What the rows mean is Spark's to say in both cases: `Layered.current` is the only rule.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from lily_spark.config import SparkSettings
from lily_spark.layered import PRIMARY, Layered, quoted
from lily_spark.storage.commits import (
    Action,
    added,
    lines,
    live,
    put_if_absent,
    removed,
    stats_columns,
    typed,
)
from lily_spark.storage.files import LakeFiles
from lily_spark.tables import open_table
from lily_spark.transforms.frames import spark_frame

#: More than this is Spark's, which needs no more memory for more rows.
MOST_CHANGED_BYTES = 32 << 20
MOST_BUCKET_BYTES = 64 << 20
_PARALLEL = 2
_TRIES = 20
_ROW_GROUP = 128 * 1024
_SAMPLE = 10_000
_PARQUET = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))


class TooLargeError(OverflowError):
    """More changed rows, or a larger bucket, than is held in memory."""


class OvertakenError(RuntimeError):
    """Somebody else has rewritten what was read."""


class LostRowsError(RuntimeError):
    """A key was given and none came back: nothing is committed."""


class Rewriting:
    """One compaction of one table: its closed rounds and the buckets of their keys."""

    def __init__(
        self, spark: SparkSession, settings: SparkSettings, layered: Layered, closed: Sequence[int]
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._layered = layered
        self._files = LakeFiles(settings)
        self._table = open_table(layered.table, settings)
        self._rounds = {-number for number in closed}

    def run(self) -> dict[str, int]:
        """Commit it; returns how many buckets and changed rows there were.

        Raises TooLargeError before anything is written, OvertakenError and LostRowsError when nothing came of it.
        """
        fresh_files = [file for file in self._live if self._bucket(file) in self._rounds]
        if sum(file["size"] for file in fresh_files) > MOST_CHANGED_BYTES:
            raise TooLargeError(f"{self._layered.table.name}: too many changed rows")
        fresh = self._read(fresh_files)
        # Rows that have had their day go with the next compaction of their bucket, whether their key has changed or not.
        buckets = self._buckets_of(fresh)
        old = [file for file in self._primary if self._bucket(file) in buckets]
        if any(size > MOST_BUCKET_BYTES for size in self._sizes(old).values()):
            raise TooLargeError(f"{self._layered.table.name}: a bucket is too large")
        graves = self._read(old, self._layered.grave.in_arrow(), *self._hashed)
        touched = Keys(pa.concat_tables([fresh.select(self._hashed), graves]))
        held = touched.of(self._read(old, touched.condition()))
        rows = pa.concat_tables([held, fresh])
        folded = self._folded(rows)
        self._see_that_none_is_lost(rows, folded)
        with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="compact") as pool:
            made = pool.map(lambda bucket: self._rewritten(bucket, old, touched, folded), sorted(buckets))
            new = [action for action in made if action is not None]
        self._commit([*fresh_files, *old], new)
        return {"buckets": len(buckets), "rows": fresh.num_rows}

    # --- what is there ------------------------------------------------------------------------------------------------

    @property
    def _hashed(self) -> list[str]:
        return list(self._layered.hashed)

    @cached_property
    def _schema(self) -> pa.Schema:
        """The files' columns: those of the table without its partitions."""
        held = [
            field for field in self._layered.table.schema if field.name not in self._layered.table.partitions
        ]
        return pa.schema(held)

    @cached_property
    def _live(self) -> list[Action]:
        return live(self._table)

    @cached_property
    def _primary(self) -> list[Action]:
        return [file for file in self._live if file["partitionValues"][self._layered.layer] == PRIMARY]

    def _bucket(self, file: Action) -> int:
        return int(file["partitionValues"][self._layered.bucket])

    def _read(
        self, files: Sequence[Action], condition: pc.Expression | None = None, *columns: str
    ) -> pa.Table:
        paths = [self._files.path(f"{self._layered.table.name}/{unquote(file['path'])}") for file in files]
        if not paths:
            return self._schema.empty_table().select(list(columns) or self._schema.names)
        found = ds.dataset(paths, schema=self._schema, format=_PARQUET, filesystem=self._files.system)
        return found.to_table(columns=list(columns) or None, filter=condition)

    def _sizes(self, files: Sequence[Action]) -> Counter[int]:
        sizes: Counter[int] = Counter()
        for file in files:
            sizes[self._bucket(file)] += file["size"]
        return sizes

    # --- what Spark says of the changed rows ---------------------------------------------------------------------------

    def _buckets_of(self, rows: pa.Table) -> set[int]:
        if not rows.num_rows:
            return set()
        placed = self._layered.placed(spark_frame(self._spark, rows))
        return {row[0] for row in placed.select(quoted(self._layered.bucket)).distinct().collect()}

    def _folded(self, rows: pa.Table) -> pa.Table:
        """The rows that hold, with their bucket."""
        if not rows.num_rows:
            return self._layered.table.schema.empty_table()
        found = self._layered.placed(self._layered.current(spark_frame(self._spark, rows))).toArrow()
        return found.cast(self._layered.table.schema)

    def _see_that_none_is_lost(self, rows: pa.Table, folded: pa.Table) -> None:
        """This is the one place where rows go for good: a key goes on account of a grave, or not at all."""
        buried = rows.filter(self._layered.grave.in_arrow())
        given, left, may_go = (set(_tuples(part.select(self._hashed))) for part in (rows, folded, buried))
        lost = given - left - may_go
        if lost:
            raise LostRowsError(
                f"{self._layered.table.name}: {len(lost)} of {len(given)} keys came to nothing"
            )

    # --- files out, files in --------------------------------------------------------------------------------------------

    def _rewritten(
        self, bucket: int, old: Sequence[Action], touched: Keys, folded: pa.Table
    ) -> Action | None:
        """The bucket's new file; None when no row is left in it."""
        layered = self._layered
        mine = [file for file in old if self._bucket(file) == bucket]
        changed = folded.filter(pc.equal(folded[layered.bucket], bucket)).select(self._schema.names)
        rows = pa.concat_tables([touched.others(self._read(mine)), changed])
        if not rows.num_rows:
            return None
        rows = typed(rows.sort_by([(name, "ascending") for name in layered.sort]), self._schema)
        buffer = pa.BufferOutputStream()
        pq.write_table(rows, buffer, compression="zstd", row_group_size=_ROW_GROUP, **_encodings(rows))
        content = buffer.getvalue()
        values = {layered.layer: PRIMARY, layered.bucket: str(bucket)}
        folder = "/".join(f"{name}={values[name]}" for name in layered.table.partitions)
        path = f"{folder}/part-00000-{uuid.uuid4()}-c000.zstd.parquet"
        self._files.write(f"{layered.table.name}/{path}", memoryview(content))
        return added(path, values, rows, content.size, stats_columns(self._table))

    def _commit(self, old: Sequence[Action], new: Sequence[Action]) -> None:
        """One commit: both layers as they were, or both as they are. It says that no data has changed."""
        info = {"operation": "OPTIMIZE", "operationParameters": {"lily": "compaction"}}
        texts = lines(info, [removed(file) for file in old], new)
        put = put_if_absent(self._spark, self._settings)
        name = self._layered.table.name
        for _ in range(_TRIES):
            now = open_table(self._layered.table, self._settings)
            there = {file["path"] for file in live(now)}
            if not there.issuperset(file["path"] for file in old):
                raise OvertakenError(f"{name}: its files were rewritten by somebody else")
            if put(f"{name}/_delta_log/{now.version() + 1:020d}.json", texts):
                return
        raise OvertakenError(f"{name}: others committed {_TRIES} times in a row")


def _encodings(rows: pa.Table) -> dict[str, Any]:
    """A dictionary for the columns whose values repeat: of the others it makes a file a quarter larger."""
    sample = rows.slice(0, _SAMPLE)
    plain = [field.name for field in rows.schema if not pa.types.is_nested(field.type)]
    repeating = [name for name in plain if pc.count_distinct(sample[name]).as_py() * 4 <= sample.num_rows]
    by_type = {
        name: "DELTA_BINARY_PACKED" if pa.types.is_integer(kind) else "DELTA_LENGTH_BYTE_ARRAY"
        for name in plain
        if name not in repeating
        and (pa.types.is_integer(kind := rows.schema.field(name).type) or pa.types.is_string(kind))
    }
    return {"use_dictionary": repeating, "column_encoding": by_type}


class Keys:
    """Some keys, of one column or several, null like any other value; made for few keys and many rows."""

    def __init__(self, keys: pa.Table) -> None:
        self._names = keys.column_names
        counted = {name: pc.count_distinct(keys[name], mode="all").as_py() for name in self._names}
        #: Tells most rows apart by itself; the few that it does not are looked at one by one.
        self._first = max(self._names, key=lambda name: counted[name])
        self._values = pc.unique(keys[self._first].combine_chunks())
        self._held = set(_tuples(keys))

    def condition(self) -> pc.Expression:
        """Fits every row that has one of the keys, and perhaps others."""
        field, known = pc.field(self._first), self._values.drop_null()
        found = field.isin(known)
        return found | field.is_null() if self._values.null_count else found

    def of(self, rows: pa.Table) -> pa.Table:
        return rows.filter(self._mask(rows))

    def others(self, rows: pa.Table) -> pa.Table:
        return rows.filter(pc.invert(self._mask(rows)))

    def _mask(self, rows: pa.Table) -> pa.Array:
        near = pc.is_in(rows[self._first], value_set=self._values)
        if len(self._names) == 1:
            return near
        places = pc.indices_nonzero(near)
        hits = [each in self._held for each in _tuples(rows.select(self._names).take(places))]
        found = places.filter(pa.array(hits, pa.bool_()))
        return pc.is_in(pa.array(range(rows.num_rows), found.type), value_set=found)


def _tuples(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True)
