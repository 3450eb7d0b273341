"""Erasing from one Delta table: files rewritten by one commit of our own, then the old files, statistics and checkpoints.

The commit names files and nothing else: a DELETE's would hold the predicate, and so what was erased. It says that the
data did not change, so that whoever follows the table does not see the file's other rows as news. Old commits keep
their place, for a writer that is one behind must not find it free; only what they tell of files that are no longer
there (least and greatest values) is taken out of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from lily_common.erasing.stoplist import Matcher
from lily_common.logs import get_logger
from lily_spark.config import SparkSettings
from lily_spark.erasing.rules import Rule, cleaned
from lily_spark.storage.commits import PutIfAbsent, added, lines, live, removed, stats_columns, typed
from lily_spark.storage.files import LakeFiles
from lily_spark.tables import storage_options

log = get_logger(__name__)
_ROWS = 2_000
_TRIES = 20
#: In these every tenant has a folder of its own, whose tables may have a column `tenant` that means something else.
OWN_FOLDERS = ("cdc", "gold")


@dataclass(frozen=True)
class Done:
    """One commit: `rows` went or were changed, in `files` that were rewritten."""

    version: int
    rows: int
    files: int


class ErasableTable:
    """One table under one erasure. Everything may be done again."""

    def __init__(
        self,
        settings: SparkSettings,
        files: LakeFiles,
        path: str,
        erasure: str,
        tenant: str,
        rule: Rule,
        put: PutIfAbsent,
    ) -> None:
        self.path = path
        self._settings = settings
        self._files = files
        self._erasure = erasure
        self._tenant = tenant
        self._rule = rule
        self._put = put

    def open(self) -> DeltaTable | None:
        uri = self._settings.lake_table(self.path).replace("s3a://", "s3://", 1)
        try:
            return DeltaTable(uri, storage_options=storage_options(self._settings))
        except TableNotFoundError:
            return None

    # --- live files -------------------------------------------------------------------------------------------------

    def rewrite(self) -> Iterator[Done | None]:
        """Rewrite each live file that holds what is erased; yields after each file, with a commit's figures or None."""
        table = self.open()
        if table is None:
            return
        columns = pa.schema(table.schema().to_arrow())
        for add in live(table):
            if self._foreign(add["path"]):
                yield None
                continue
            made = self._rewritten(add, columns)
            yield None if made is None else self._commit(add, *made)

    def _foreign(self, path: str) -> bool:
        """Whether a file's partition says that it is another tenant's."""
        named = [part for part in path.split("/") if part.startswith("tenant=")]
        return bool(named) and unquote(named[0]) != f"tenant={self._tenant}"

    def _rewritten(self, add: dict[str, Any], columns: pa.Schema) -> tuple[dict[str, Any] | None, int] | None:
        """(the add action of the file's remaining rows or None when none remain, rows touched); None: nothing to do."""
        parquet = self._files.parquet(f"{self.path}/{unquote(add['path'])}")
        if not self._matches(parquet):
            return None
        batches, touched = [], 0
        for batch in parquet.iter_batches(_ROWS):
            kept, count = cleaned(batch, self._rule, self._tenant_of(parquet))
            touched += count
            batches.append(kept)
        rows = typed(pa.Table.from_batches(batches), columns)
        if not rows.num_rows:
            return None, touched
        folder, _, _ = add["path"].rpartition("/")
        name = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
        path = f"{folder}/{name}" if folder else name
        buffer = pa.BufferOutputStream()
        pq.write_table(rows, buffer, compression="zstd")
        content = buffer.getvalue()
        self._files.write(f"{self.path}/{unquote(path)}", memoryview(content))
        made = added(path, add["partitionValues"], rows, content.size, self._stats_columns())
        return made, touched

    def _matches(self, parquet: pq.ParquetFile) -> bool:
        tenant = self._tenant_of(parquet)
        return any(cleaned(batch, self._rule, tenant)[1] for batch in parquet.iter_batches(_ROWS))

    def _tenant_of(self, parquet: pq.ParquetFile) -> str | None:
        """The tenant to look for in the rows; None where the file is of one tenant only."""
        parts = self.path.split("/")
        own = parts[0] in OWN_FOLDERS and parts[1] == self._tenant
        return self._tenant if not own and "tenant" in parquet.schema_arrow.names else None

    def _stats_columns(self) -> frozenset[str]:
        table = self.open()
        return stats_columns(table) if table else frozenset()

    def _commit(self, old: dict[str, Any], new: dict[str, Any] | None, rows: int) -> Done | None:
        """The old file out, the new one in. None when somebody else has removed the old one meanwhile."""
        info = {
            "operation": "ERASE",
            "operationParameters": {},
            "operationMetrics": {"rows": str(rows), "files": "1"},
            "erasure": self._erasure,
        }
        texts = lines(info, [removed(old)], [new] if new else [])
        for _ in range(_TRIES):
            table = self.open()
            if table is None or all(add["path"] != old["path"] for add in live(table)):
                return None
            version = table.version() + 1
            if self._put(f"{self.path}/_delta_log/{version:020d}.json", texts):
                log.info("erased from a file", table=self.path, version=version, rows=rows)
                return Done(version, rows, 1)
        raise TimeoutError(f"{self.path}: others committed {_TRIES} times in a row")

    # --- what is left of them -----------------------------------------------------------------------------------------

    def commits(self) -> list[Done]:
        """The commits of this erasure that the log has, also those of a process that died."""
        found = []
        for path in self._log():
            if path.endswith(".json") and _version(path) is not None:
                for line in self._files.read(path).splitlines():
                    info = orjson.loads(line).get("commitInfo") or {}
                    if info.get("erasure") == self._erasure:
                        metrics = info["operationMetrics"]
                        done = Done(_version(path) or 0, int(metrics["rows"]), int(metrics["files"]))
                        found.append(done)
        return found

    def sweep(self, matcher: Matcher) -> Iterator[int]:
        """Remove what no version needs and holds what is erased; then make the log silent of it. Yields files removed."""
        table = self.open()
        if table is None:
            return
        table.create_checkpoint()
        version = table.version()
        active = {unquote(add["path"]) for add in live(table)}
        gone = [path for path in self._data() if path[len(self.path) + 1 :] not in active]
        removed: set[str] = set()
        for path in gone:
            if not self._foreign(quote(path[len(self.path) + 1 :], safe="/=")) and self._held(path):
                removed.add(path[len(self.path) + 1 :])
                yield self._files.remove([path])
        yield self._files.remove(path for path in self._log() if _outdated(path, version))
        commits = [path for path in self._log() if (_version(path) or version + 1) <= version]
        commits = [path for path in commits if path.endswith(".json")]
        with ThreadPoolExecutor(8) as pool:
            for _ in pool.map(lambda path: self._silence(path, active, removed, matcher), commits):
                pass
        yield 0

    def _held(self, path: str) -> bool:
        """Whether a data file that no version needs holds what is erased; what cannot be read was never finished."""
        try:
            return self._matches(self._files.parquet(path))
        except FileNotFoundError:
            return False
        except pa.ArrowException:
            return True

    def _silence(self, path: str, active: set[str], removed: set[str], matcher: Matcher) -> None:
        content = self._files.read(path)
        lines = [orjson.loads(line) for line in content.splitlines() if line.strip()]
        after = [line for line in (_silent(line, active, removed, matcher) for line in lines) if line]
        if after != lines:
            self._files.write(path, b"\n".join(map(orjson.dumps, after)) + b"\n")

    def _data(self) -> list[str]:
        log_folder = f"{self.path}/_delta_log/"
        files = self._files.list(self.path)
        return [path for path in files if path.endswith(".parquet") and not path.startswith(log_folder)]

    def _log(self) -> list[str]:
        return self._files.list(f"{self.path}/_delta_log")


def _version(path: str) -> int | None:
    name = path.rpartition("/")[2].split(".")[0]
    return int(name) if len(name) == 20 and name.isdigit() else None


def _outdated(path: str, version: int) -> bool:
    """Of the log: checkpoints before `version`, Spark's checksums (which may list every file) and merged commits."""
    name = path.rpartition("/")[2]
    if name.endswith(".crc") or name.endswith(".compacted.json"):
        return True
    held = _version(path)
    return ".checkpoint" in name and held is not None and held < version


def _silent(
    line: dict[str, Any], active: set[str], removed: set[str], matcher: Matcher
) -> dict[str, Any] | None:
    """One action of a commit, without statistics of files that are gone and without what is erased."""
    add = line.get("add")
    if add is not None and unquote(add["path"]) not in active and add.get("stats"):
        count = orjson.loads(add["stats"]).get("numRecords")
        return {"add": add | {"stats": orjson.dumps({"numRecords": count}).decode()}}
    if "commitInfo" in line:
        return {"commitInfo": matcher.clean(line["commitInfo"])}
    if "cdc" in line and unquote(line["cdc"]["path"]) in removed:
        return None
    return line
