"""A thread of the lake job that follows silver.assets, a round at a time, over an index on the local disk.

A round is taken in and told in one transaction of the index: what follows is published first, then the index notes how far
it has come. A crash in between repeats the round; the same events are then told again under the same ids, or read back.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from pathlib import Path

from lily_common.errors import UnavailableError
from lily_common.logs import get_logger
from lily_spark.config import SparkSettings
from lily_spark.propagation.facts import Facts
from lily_spark.storage.snapshots import TooManyChangesError, VersionGoneError

log = get_logger(__name__)
_LOOK_SECONDS = 1.0
_RETRY_SECONDS = 2.0


class Follower(ABC):
    """Owns the index `<name>.db` beside the checkpoints. `wake` is for whoever appends to silver."""

    def __init__(self, settings: SparkSettings, name: str) -> None:
        self._name = name
        self._path = settings.checkpoint("lake", f"{name}.db")
        self._held: Facts | None = None
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 20.0) -> None:
        """End after the round at hand; one that is cut off is taken again."""
        self._stopping.set()
        self._woken.set()
        self._thread.join(seconds)

    def wake(self) -> None:
        """Silver has more."""
        self._woken.set()

    def forget(self) -> None:
        """Make the index anew at the next round: what it holds may have been erased."""
        with self._lock:
            self._drop()
        self._woken.set()

    @abstractmethod
    def _look(self) -> None:
        """One round, with the lock held. Raises VersionGoneError and TooManyChangesError where the index has to be
        made anew, UnavailableError when Kafka does not answer."""

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._lock:
                    self._look_surely()
            except UnavailableError as away:
                log.warning("a follower waits", name=self._name, error=str(away)[:300])
                self._stopping.wait(_RETRY_SECONDS)
            except Exception:
                if not self._stopping.is_set():
                    log.exception("a round failed and is taken again", name=self._name)
                    self._stopping.wait(_RETRY_SECONDS)
            self._woken.wait(_LOOK_SECONDS)
            self._woken.clear()

    def _look_surely(self) -> None:
        try:
            self._look()
        except (VersionGoneError, TooManyChangesError) as gone_by:
            log.warning("an index is made anew", name=self._name, reason=str(gone_by)[:300])
            self._drop()
            self._woken.set()

    def _drop(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
