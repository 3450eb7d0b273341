"""The upkeep thread of the lake job: commands as they come, compaction and the mirror's upkeep when they are due."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from pyspark.util import InheritableThread

from lily_common.logs import get_logger
from lily_spark.cdc.refusals import REFUSALS
from lily_spark.config import SparkSettings
from lily_spark.mirror.rebuild import complete_partials, rebuild
from lily_spark.mirror.store import open_mirror
from lily_spark.mirror.upkeep import expire
from lily_spark.mirror.writer import current_config
from lily_spark.sinks.layers import UpdatesLayer
from lily_spark.tables import ALL, EVENTS, RAW
from lily_spark.upkeep.commands import Commands, Handler, Starter
from lily_spark.upkeep.compaction import compact
from lily_spark.upkeep.housekeeping import Housekeeping
from lily_spark.upkeep.small_files import merge_small_files
from lily_spark.upkeep.task import Task

log = get_logger(__name__)
_POLL_SECONDS = 0.5
_GROUP = "upkeep"
_MIRROR_SECONDS = 60.0


class Upkeep:
    """Runs its tasks one at a time on a thread of its own; a task that fails is tried again when it is next due."""

    def __init__(self, spark: SparkSession, settings: SparkSettings, updates: UpdatesLayer) -> None:
        compaction = partial(compact, spark, settings, updates)
        self._spark = spark
        self._stopping = threading.Event()
        self._handlers: dict[str, Handler] = {
            "rebuild_mirror": lambda tenant, _args: rebuild(spark, tenant),
            "compact": lambda _tenant, _args: compaction(),
        }
        self._commands = Commands(settings.kafka_bootstrap, self._handlers, self._stopping.is_set)
        self.housekeeping = Housekeeping(settings)
        self.housekeeping.register(lambda: [table.name for table in (*ALL, REFUSALS)])
        self._tasks = [
            Task(
                "compact",
                settings.compact_seconds,
                compaction,
                lambda: updates.files >= settings.compact_files,
            ),
            *(
                Task(
                    f"merge small files of {table.name}",
                    settings.optimize_seconds,
                    partial(merge_small_files, table, settings),
                )
                for table in (EVENTS, RAW)
            ),
            Task("complete partials", _MIRROR_SECONDS, partial(complete_partials, spark)),
            Task("expire", _MIRROR_SECONDS, _expire),
            self.housekeeping.task(),
        ]
        self._thread = InheritableThread(target=self._loop, name="upkeep", daemon=True)

    def add(self, *tasks: Task) -> None:
        """More work to do again and again; before `start`."""
        self._tasks += tasks

    def handle(self, command: str, handler: Handler) -> None:
        """One more command that is known; before `start`."""
        self._handlers[command] = handler

    def take_on(self, command: str, starter: Starter) -> None:
        """One more command, whose work goes on elsewhere: how it goes is told by `answer`; before `start`."""
        self._commands.starters[command] = starter

    def answer(self, command: dict[str, Any], status: str, detail: Any) -> None:
        """Tell the API how a command goes; any thread may. Raises KafkaException when Kafka does not acknowledge."""
        self._commands.answer(command, status, detail)

    def start(self) -> None:
        for task in self._tasks:
            task.last = time.monotonic()
        self._thread.start()

    def stop(self, seconds: float = 20.0) -> None:
        """Cut off the operation at hand: a commit that does not come never happened, and a command is done again."""
        self._stopping.set()
        deadline = time.monotonic() + seconds
        while self._thread.is_alive() and time.monotonic() < deadline:
            self._spark.sparkContext.cancelJobGroup(_GROUP)
            self._thread.join(0.5)

    def _loop(self) -> None:
        # A pool and a job group of its own: the streams' tasks never queue up behind upkeep's, and a stop cancels them.
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", _GROUP)
        self._spark.sparkContext.setJobGroup(_GROUP, "upkeep", interruptOnCancel=False)
        while not self._stopping.is_set():
            self._command(_POLL_SECONDS)
            for task in self._tasks:
                if not self._stopping.is_set() and self._run(task):
                    self._command(0)  # it waits for one piece of work at most
        self._commands.close()

    def _command(self, seconds: float) -> None:
        try:
            self._commands.poll(seconds)
        except Exception:
            if not self._stopping.is_set():
                log.exception("command not done")
            self._stopping.wait(_POLL_SECONDS)

    def _run(self, task: Task) -> bool:
        """Do a piece of `task` if it is due; whether it was."""
        try:
            if time.monotonic() - task.last < task.every and not task.due():
                return False
            task.run()
        except Exception:
            if not self._stopping.is_set():
                log.exception("upkeep failed", task=task.name)
        task.last = time.monotonic()
        return True


def _expire() -> Any:
    return expire(open_mirror(current_config()), datetime.now(UTC))
