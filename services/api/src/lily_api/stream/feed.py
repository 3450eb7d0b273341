"""The live end of one tenant's topic: a thread reads it, a buffer holds the last of it for all streams of the tenant.

Everything but the thread's loop runs in the event loop; the thread hands over with `call_soon_threadsafe`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

from confluent_kafka import KafkaException

from lily_api.stream.positions import Positions
from lily_api.stream.topic import Entry, TopicReader
from lily_common.logs import get_logger

log = get_logger(__name__)

MAX_ENTRIES = 2_000
MAX_BYTES = 8_000_000
_POLL_SECONDS = 0.25
_RETRY_SECONDS = 1.0


class Feed:
    """Follows `topic` from its end, or from its start when it is created later."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self._bootstrap = bootstrap
        self._loop = asyncio.get_running_loop()
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._first = 0
        self._starts: Positions = {}
        self.ends: Positions = {}
        self._news = asyncio.Event()
        self._ready = asyncio.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stream-{topic}", daemon=True)
        self._thread.start()

    async def ready(self, seconds: float) -> bool:
        """Wait until the end of the topic is known (or that there is no topic yet)."""
        try:
            await asyncio.wait_for(self._ready.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Tell the thread to end; it does within its poll time."""
        self._stop.set()

    # What streams ask.

    @property
    def first(self) -> int:
        """Number of the oldest entry in the buffer; entries are numbered in the order in which they came."""
        return self._first

    def covers(self, positions: Positions) -> bool:
        """Whether all that follows `positions` is in the buffer or yet to come."""
        return all(positions.get(partition, 0) >= start for partition, start in self._starts.items())

    def entries_from(self, number: int, limit: int) -> list[Entry]:
        start = number - self._first
        return list(islice(self._entries, start, start + limit))

    async def news(self, seconds: float) -> None:
        """Return when an entry has come, or after `seconds`."""
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return

    # What the thread hands over.

    def _attached(self, ends: Positions) -> None:
        # A number is skipped: whoever had read all of the old buffer must not take the new one for its continuation.
        self._first += len(self._entries) + 1
        self._entries.clear()
        self._bytes = 0
        self._starts, self.ends = dict(ends), dict(ends)
        self._ready.set()

    def _append(self, entries: list[Entry]) -> None:
        for entry in entries:
            self._entries.append(entry)
            self._bytes += len(entry.value)
            self.ends[entry.partition] = entry.offset + 1
        while len(self._entries) > MAX_ENTRIES or self._bytes > MAX_BYTES:
            oldest = self._entries.popleft()
            self._first += 1
            self._bytes -= len(oldest.value)
            self._starts[oldest.partition] = oldest.offset + 1
        self._news.set()
        self._news = asyncio.Event()

    # The thread.

    def _run(self) -> None:
        while not self._stop.is_set():
            reader = TopicReader(self._bootstrap, self.topic)
            try:
                self._follow(reader)
            except KafkaException as failed:
                log.warning("stream feed interrupted", topic=self.topic, error=str(failed)[:300])
                self._stop.wait(_RETRY_SECONDS)
            finally:
                reader.close()

    def _follow(self, reader: TopicReader) -> None:
        bounds = reader.bounds()
        ends = {number: high for number, (_low, high) in bounds.items()}
        if not bounds:
            self._hand_over(self._attached, {})
        while not ends:  # the topic is made with its first event, which is news then
            if self._stop.wait(_RETRY_SECONDS):
                return
            ends = {number: low for number, (low, _high) in reader.bounds().items()}
        reader.assign(ends)
        self._hand_over(self._attached, ends)
        while not self._stop.is_set():
            if entries := reader.read(_POLL_SECONDS):
                self._hand_over(self._append, entries)

    def _hand_over(self, take: Callable[..., None], *arguments: object) -> None:
        if not self._stop.is_set():
            # RuntimeError: the loop has ended, and with it all who would read.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(take, *arguments)
