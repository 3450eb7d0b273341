"""The thread of the lake job that refreshes incremental tables when they are due, and what it does on command.

One refresh at a time, whoever asks for it: beside the streams and the upkeep of other tables, never before them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.util import InheritableThread

from lily_common.errors import UnavailableError
from lily_common.gold.builtin import EVERYONE, builtin, table_path
from lily_common.logs import get_logger
from lily_spark.config import SparkSettings
from lily_spark.gold import advice
from lily_spark.gold.declarations import Declaration, Declarations
from lily_spark.gold.refresh import Refresher
from lily_spark.gold.target import Target
from lily_spark.gold.telling import Telling
from lily_spark.upkeep.commands import Handler
from lily_spark.upkeep.compaction import compact

log = get_logger(__name__)
_LOOK_SECONDS = 1.0
_GROUP = "gold"


@dataclass
class _Kept:
    """One table: its refresher, when it was last refreshed (by `time.monotonic`), and what hindered that."""

    refresher: Refresher
    last: float | None = None
    hindered: str = ""


class GoldWorker:
    """Owns the incremental tables."""

    def __init__(self, spark: SparkSession, settings: SparkSettings) -> None:
        self._context = spark.sparkContext
        #: A session of its own: joins of many rows and of few want other settings than streams do.
        self._spark = spark.newSession()
        self._settings = settings
        self._declarations = Declarations(settings.kafka_bootstrap)
        self._telling = Telling(settings.kafka_bootstrap)
        self._tables: dict[str, _Kept] = {}
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._thread = InheritableThread(target=self._loop, name=_GROUP, daemon=True)

    @property
    def handlers(self) -> dict[str, Handler]:
        """The commands that are about incremental tables. They may be called from another thread."""
        return {
            "refresh_table": lambda tenant, args: self._refresh(
                tenant, args["table"], full=bool(args.get("full"))
            ),
            "check_table": lambda tenant, args: self._check(
                tenant, args["table"], repair=bool(args.get("repair", True))
            ),
            "plan_table": lambda tenant, args: self._ask(tenant, args["table"], advice.plan),
            "explain_table": lambda tenant, args: self._ask(tenant, args["table"], advice.explain),
            "drop_table": lambda tenant, args: self._drop(tenant, args["table"]),
        }

    def paths(self) -> list[str]:
        """Of every table that is there, for housekeeping."""
        return [kept.refresher.target.path for kept in list(self._tables.values())]

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 20.0) -> None:
        """Cut off the refresh at hand: a commit that does not come never happened."""
        self._stopping.set()
        deadline = time.monotonic() + seconds
        while self._thread.is_alive() and time.monotonic() < deadline:
            self._context.cancelJobGroup(_GROUP)
            self._thread.join(0.5)
        self._telling.close()

    def _loop(self) -> None:
        self._context.setLocalProperty("spark.scheduler.pool", _GROUP)
        self._context.setJobGroup(_GROUP, "incremental tables", interruptOnCancel=False)
        while not self._stopping.wait(_LOOK_SECONDS):
            try:
                self._look()
            except UnavailableError as away:
                log.warning("incremental tables wait for their declarations", error=str(away)[:300])
            except Exception:
                if not self._stopping.is_set():
                    log.exception("incremental tables not looked at")

    def _look(self) -> None:
        """Refresh what is due, the one that has waited longest first; then compact what is due."""
        self._follow()
        now = time.monotonic()
        due = [(kept.last or 0.0, name) for name, kept in self._tables.items() if _is_due(kept, now)]
        for _since, name in sorted(due):
            if self._stopping.is_set():
                return
            kept = self._tables.get(name)
            if kept is not None:
                self._scheduled(kept)

    def _follow(self) -> None:
        """Take in what was declared, changed and deleted since the last look."""
        declared = self._declarations.current()
        with self._lock:
            for name in self._tables.keys() - declared.keys():
                del self._tables[name]
            for name, declaration in declared.items():
                kept = self._tables.get(name)
                if kept is None or kept.refresher.spec != declaration.declaration:
                    self._tables[name] = self._kept(declaration)

    def _kept(self, declaration: Declaration) -> _Kept:
        """The built-in tables wait their interval: the start of the job is for the streams."""
        refresher = Refresher(self._spark, self._settings, declaration.tenant, declaration.declaration)
        return _Kept(refresher, time.monotonic() if declaration.tenant == EVERYONE else None)

    def _scheduled(self, kept: _Kept) -> None:
        refresher = kept.refresher
        try:
            with self._lock:
                self._do(kept, refresher.refresh)
                self._compact(refresher.target)
            kept.hindered = ""
        except Exception as failed:
            hindered = f"{type(failed).__name__}: {str(failed)[:500]}"
            if not self._stopping.is_set() and hindered != kept.hindered:
                log.warning("incremental table not refreshed", table=refresher.target.path, error=hindered)
            kept.hindered = hindered

    def _do(self, kept: _Kept, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Do it and tell how it went."""
        refresher = kept.refresher
        named = (refresher.tenant, refresher.spec.name, refresher.target.path)
        try:
            done = work()
        except Exception as failed:
            if not self._stopping.is_set():
                self._telling.failed(*named, failed)
            raise
        finally:
            kept.last = time.monotonic()
        self._telling.succeeded(*named, done)
        return done

    def _compact(self, target: Target) -> None:
        updates = target.updates
        if updates is None or updates.waiting.since is None:
            return
        waiting = updates.waiting
        old = time.monotonic() - updates.waiting.since >= self._settings.compact_seconds
        if (
            old
            or waiting.files >= self._settings.compact_files
            or waiting.bytes >= self._settings.compact_bytes
        ):
            compact(self._spark, self._settings, updates)

    def _refresh(self, tenant: str, name: str, *, full: bool) -> dict[str, Any]:
        with self._lock:
            kept = self._found(tenant, name)
            return _for(tenant, name, self._do(kept, lambda: kept.refresher.refresh(full=full)))

    def _check(self, tenant: str, name: str, *, repair: bool) -> dict[str, Any]:
        with self._lock:
            kept = self._found(tenant, name)
            return _for(tenant, name, self._do(kept, lambda: kept.refresher.check(repair=repair)))

    def _ask(self, tenant: str, name: str, question: Callable[[Refresher], dict[str, Any]]) -> dict[str, Any]:
        with self._lock:
            return _for(tenant, name, question(self._found(tenant, name).refresher))

    def _drop(self, tenant: str, name: str) -> dict[str, Any]:
        if name in builtin():
            raise LookupError(f"{name} is a built-in table")
        with self._lock:
            self._tables.pop(f"{tenant}|{name}", None)
            Target(self._spark, self._settings, table_path(tenant, name)).drop()
        return {"dropped": name}

    def _found(self, tenant: str, name: str) -> _Kept:
        """The table as it is declared now: a command may come sooner than the thread has looked."""
        self._follow()
        owner = EVERYONE if name in builtin() else tenant
        kept = self._tables.get(f"{owner}|{name}")
        if kept is None:
            raise LookupError(f"there is no table {name}")
        return kept


def _is_due(kept: _Kept, now: float) -> bool:
    return kept.last is None or now - kept.last >= kept.refresher.spec.interval


def _for(tenant: str, name: str, told: dict[str, Any]) -> dict[str, Any]:
    """Of a built-in table a tenant is told nothing that hangs on other tenants' rows."""
    if name not in builtin():
        return told
    own = [one for one in told.get("examples", []) if one["key"].get("tenant") == tenant]
    shown = {key: told[key] for key in ("mode", "reason", "seconds", "would", "key", "select") if key in told}
    return shown | ({"examples": own} if "examples" in told else {})
