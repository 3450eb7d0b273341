"""What every table of the lake needs from time to time: VACUUM, a checkpoint of its log, the old log cleared, its size told.

Whoever makes tables registers where their paths come from; each piece of work is one table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from lily_common.logs import get_logger
from lily_common.metrics import TABLE_BYTES, TABLE_FILES, UPKEEP_SECONDS
from lily_spark.config import SparkSettings
from lily_spark.tables import storage_options
from lily_spark.upkeep.task import Task

log = get_logger(__name__)
#: Paths of tables in the lake, e.g. `bronze/events`; asked again each time.
Paths = Callable[[], Iterable[str]]


class Housekeeping:
    """Keeps the tables of all registered providers. Used by the upkeep thread."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._providers: list[Paths] = []
        self._done: dict[str, float] = {}
        self._versions: dict[str, int] = {}

    def register(self, paths: Paths) -> None:
        """Keep these tables from now on."""
        self._providers.append(paths)

    def paths(self) -> list[str]:
        """Of every table that is kept, as of now."""
        return [path for provider in self._providers for path in provider()]

    def task(self) -> Task:
        return Task("housekeeping", 5.0, self.run)

    def run(self) -> str | None:
        """Keep the table whose turn it is; returns its path, None when none is due."""
        path = self._next()
        if path is not None:
            # Its next turn comes after the others', whatever becomes of this one.
            self._done[path] = time.monotonic()
            self.keep(path)
        return path

    def keep(self, path: str) -> None:
        """VACUUM, checkpoint, log clean-up and metrics of one table."""
        uri = self._settings.lake_table(path).replace("s3a://", "s3://", 1)
        try:
            table = DeltaTable(uri, storage_options=storage_options(self._settings))
        except TableNotFoundError:
            return
        TABLE_FILES.labels(path).set(len(table.file_uris()))
        sizes = pa.table(table.get_add_actions(flatten=True))["size_bytes"]
        TABLE_BYTES.labels(path).set(pc.sum(sizes).as_py() or 0)
        if self._versions.get(path) == table.version():
            return
        with UPKEEP_SECONDS.labels(path, "vacuum").time():
            removed = table.vacuum(
                retention_hours=int(24 * self._settings.vacuum_days),
                dry_run=False,
                enforce_retention_duration=False,
            )
        with UPKEEP_SECONDS.labels(path, "log").time():
            table.update_incremental()
            table.create_checkpoint()
            table.cleanup_metadata()
        self._versions[path] = table.version()
        if removed:
            log.info("vacuumed", table=path, files=len(removed))

    def _next(self) -> str | None:
        """The table that has waited longest, of those whose time has come."""
        now = time.monotonic()
        paths = self.paths()
        began = now - self._settings.housekeeping_seconds
        waiting = [(self._done.get(path, began), path) for path in paths]
        due = [found for found in waiting if now - found[0] >= self._settings.housekeeping_seconds]
        return min(due)[1] if due else None
