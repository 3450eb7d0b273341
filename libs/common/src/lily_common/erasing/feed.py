"""The stop-list out of Kafka, for whoever reads what the API let in before it was told."""

from __future__ import annotations

import threading

from lily_common.compacted import Compacted
from lily_common.erasing.digests import DigestKey
from lily_common.erasing.stoplist import Entry, StopList, decode
from lily_common.events import ERASURES_TOPIC


class StopListFeed:
    """Reads `lily.erasures` to its end whenever asked. Thread-safe."""

    def __init__(self, bootstrap: str, master_key: bytes, group: str) -> None:
        self.key = DigestKey(master_key)
        self._entries: Compacted[Entry] = Compacted(bootstrap, ERASURES_TOPIC, group, decode)
        self._lock = threading.Lock()
        self._held: dict[str, Entry] = {}
        self._list = StopList(self.key)

    def entries(self) -> list[Entry]:
        """Every erasure. Raises UnavailableError when Kafka does not answer: to go on could write what was erased."""
        return list(self._entries.current().values())

    def current(self) -> StopList:
        """The list as of now; the same object while nothing changes."""
        entries = self._entries.current()
        with self._lock:
            if entries != self._held:
                self._held, self._list = entries, StopList(self.key, entries.values())
            return self._list
