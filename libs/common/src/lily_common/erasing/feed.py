"""The stop-list out of Kafka, for whoever reads what the API let in before it was told."""

from __future__ import annotations

import threading
import time

from lily_common.compacted import Compacted
from lily_common.erasing.digests import DigestKey
from lily_common.erasing.stoplist import Entry, StopList, decode
from lily_common.events import ERASURES_TOPIC

#: A batch costs no question to Kafka more often than this.
STALE_SECONDS = 0.5


class StopListFeed:
    """Reads `lily.erasures` to its end when asked. Thread-safe."""

    def __init__(self, bootstrap: str, master_key: bytes, group: str) -> None:
        self.key = DigestKey(master_key)
        self._entries: Compacted[Entry] = Compacted(bootstrap, ERASURES_TOPIC, group, decode)
        self._lock = threading.Lock()
        self._held: dict[str, Entry] = {}
        self._list = StopList(self.key)
        self._fresh_until = 0.0

    def entries(self) -> list[Entry]:
        """Every erasure. Raises UnavailableError when Kafka does not answer: to go on could write what was erased."""
        return list(self._entries.current().values())

    def current(self) -> StopList:
        """The list as it stood half a second ago or later; the same object while nothing changes.

        Every erasure gives what slips through in that time its grace, and looks again.
        """
        with self._lock:
            if time.monotonic() < self._fresh_until:
                return self._list
        began = time.monotonic()
        entries = self._entries.current()
        with self._lock:
            self._fresh_until = began + STALE_SECONDS
            if entries != self._held:
                self._held, self._list = entries, StopList(self.key, entries.values())
            return self._list
