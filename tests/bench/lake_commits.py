"""What many commits cost a reader: the same events in 10,000 commits and in 100, both as upkeep leaves them.

The fixtures are made on the local disk and copied: what is measured is the reading. Opening and the minute are read by
the library that the API and playback read with, the latest state by Spark.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lily_spark.config import SparkSettings
from lily_spark.storage.commits import added, lines
from lily_spark.tables import EVENTS, Table, open_table, storage_options
from lily_spark.upkeep.housekeeping import Housekeeping
from lily_spark.upkeep.small_files import merge_small_files
from tests.bench.lake_store import objects
from tests.bench.result import Gate, Row

EVENTS_PER_SECOND = 20
REPEATS = 7
TENANT = "bench"


def rows(settings: SparkSettings, session: SparkSession, commits: int, few: int) -> Iterator[Row]:
    """`commits-open`, `commits-latest`, `commits-replay`: `commits` seconds of events, a commit each, beside `few`."""
    began = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    many = _made(settings, f"bench/commits-{commits}", commits, 1, began)
    less = _made(settings, f"bench/commits-{few}", few, commits // few, began)
    middle = began + timedelta(seconds=commits // 2)
    minute = (middle, middle + timedelta(minutes=1))
    reads: dict[str, Callable[[Table], Any]] = {
        "commits-open": lambda table: _open(settings, table).version(),
        "commits-latest": lambda table: _latest(settings, session, table),
        "commits-replay": lambda table: _replayed(settings, table, *minute),
    }
    for case, read in reads.items():
        mine, found = _timed(read, many)
        theirs, expected = _timed(read, less)
        if case == "commits-open":
            gate = Gate(1, 1, 0, 0)
        else:
            gate = Gate(
                expected[0], found[0], 0 if found == expected else abs(expected[0] - found[0]) or 1, 0
            )
        held = {
            "milliseconds": mine,
            "commits": _open(settings, many).version(),
            "files": _files(settings, many),
        }
        peer = {
            "milliseconds": theirs,
            "commits": _open(settings, less).version(),
            "files": _files(settings, less),
        }
        yield Row(case, held, gate, peer, round(theirs / mine, 2))


def _made(settings: SparkSettings, name: str, commits: int, seconds: int, began: datetime) -> Table:
    """A table of bronze.events' form with `commits` appends of `seconds` of events each, kept as the lake job keeps it."""
    table = replace(EVENTS, name=name)
    with tempfile.TemporaryDirectory() as folder:
        local = settings.model_copy(update={"lake_uri": folder})
        open_table(table, local)
        for number in range(commits):
            _append(Path(folder) / name, number + 1, _events(number, seconds, began))
        open_table(table, local).create_checkpoint()
        _copy(settings, Path(folder) / name, name)
    merge_small_files(table, settings, days=3)
    Housekeeping(settings).keep(name)
    return table


def _append(folder: Path, version: int, rows: pa.Table) -> None:
    """One commit by hand: a library that holds the table's log looks through all of it at each of them."""
    values = {"date": rows["date"][0].as_py().isoformat(), "tenant": TENANT}
    file = folder.joinpath(
        *(f"{key}={value}" for key, value in values.items()), f"part-{version:05d}.parquet"
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    held = rows.drop_columns(list(values))
    pq.write_table(held, file, compression="zstd")
    add = added(str(file.relative_to(folder)), values, held, file.stat().st_size, frozenset(EVENTS.stats))
    commit = lines({"isBlindAppend": True}, [], [add | {"dataChange": True}])
    (folder / "_delta_log" / f"{version:020d}.json").write_text("\n".join(commit) + "\n")


def _events(commit: int, seconds: int, began: datetime) -> pa.Table:
    start = began + timedelta(seconds=commit * seconds)
    first = commit * seconds * EVENTS_PER_SECOND
    count = seconds * EVENTS_PER_SECOND
    numbers = range(first, first + count)
    times = [start + timedelta(seconds=place / EVENTS_PER_SECOND) for place in range(count)]
    columns: dict[str, Any] = {
        "tenant": [TENANT] * count,
        "date": [moment.date() for moment in times],
        "id": [f"e{number:09d}" for number in numbers],
        "source": ["/bench"] * count,
        "type": ["lily.asset.upserted"] * count,
        "subject": [f"postgres://bench/public/t{number % 5_000}" for number in numbers],
        "time": times,
        "accepted_time": times,
        "lane": ["priority"] * count,
        "version": [f"{number:017d}" for number in numbers],
        "event": [f'{{"note":"{sha256(str(number).encode()).hexdigest()}"}}' for number in numbers],
        "topic": ["lily.changes.priority"] * count,
        "partition": [0] * count,
        "offset": list(numbers),
        "kafka_time": times,
        "commit": [moment.hour * 3600 + moment.minute * 60 + moment.second for moment in times],
    }
    return pa.table({name: columns[name] for name in EVENTS.columns}, schema=EVENTS.schema)


def _copy(settings: SparkSettings, folder: Path, name: str) -> None:
    bucket, _, prefix = settings.lake_table(name).split("://", 1)[1].partition("/")
    store = objects(settings)

    def put(path: Path) -> None:
        store.put_object(Bucket=bucket, Key=f"{prefix}/{path.relative_to(folder)}", Body=path.read_bytes())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, (path for path in folder.rglob("*") if path.is_file())))


def _open(settings: SparkSettings, table: Table) -> DeltaTable:
    return DeltaTable(
        table.uri(settings).replace("s3a://", "s3://", 1), storage_options=storage_options(settings)
    )


def _files(settings: SparkSettings, table: Table) -> int:
    return len(_open(settings, table).file_uris())


def _latest(settings: SparkSettings, session: SparkSession, table: Table) -> tuple[int, str]:
    """(assets, the sum of their newest versions): every event is read."""
    newest = (
        session.read.format("delta")
        .load(table.uri(settings))
        .groupBy("subject")
        .agg(F.max("version").alias("v"))
    )
    count, versions = newest.agg(F.count("*"), F.sum(F.col("v").cast("long"))).collect()[0]
    return int(count), str(versions)


def _replayed(settings: SparkSettings, table: Table, start: datetime, end: datetime) -> tuple[int, str]:
    """(events, a hash of them) accepted in this time, in order."""
    kept = (
        (pc.field("date") >= start.date()) & (pc.field("date") <= end.date()) & (pc.field("tenant") == TENANT)
    )
    kept &= (pc.field("accepted_time") >= start) & (pc.field("accepted_time") < end)
    found = (
        _open(settings, table).to_pyarrow_dataset().to_table(columns=["id", "event", "version"], filter=kept)
    )
    ordered = found.sort_by([("version", "ascending")])
    text = "".join(f"{row['id']}{row['event']}" for row in ordered.to_pylist())
    return found.num_rows, sha256(text.encode()).hexdigest()


def _timed(read: Callable[[Table], Any], table: Table) -> tuple[float, Any]:
    """(median milliseconds, what was read); the first time does not count."""
    found = read(table)
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        read(table)
        times.append((time.perf_counter() - started) * 1000)
    return round(statistics.median(times), 1), found
