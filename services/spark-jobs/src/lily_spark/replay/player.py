"""Plays replays: a thread that takes each in turn, sends what is due at its rate, and notes how far it is.

A crash repeats what was sent since the last note (about a second) and loses nothing: the place noted is always behind
what Kafka has acknowledged. Whoever receives a replay tells repeats by their ids.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
from confluent_kafka import KafkaException, Producer

from lily_common.envelope import rfc3339
from lily_common.errors import UnavailableError
from lily_common.events import REPLAYS_TOPIC
from lily_common.kafka import producer_config
from lily_common.logs import get_logger
from lily_common.metrics import REPLAYED
from lily_common.names import message_key
from lily_spark.config import SparkSettings
from lily_spark.replay.ledger import ReplayLedger
from lily_spark.replay.reading import EventLog, Past
from lily_spark.replay.request import Position, Progress

log = get_logger(__name__)
#: Replays that hold events in memory at once; more wait for their turn.
AT_ONCE = 8
#: A replay sends what is due this often, in seconds, and notes its place this often.
_BEAT = 0.2
_NOTE_SECONDS = 1.0
_FLUSH_SECONDS = 30.0
_MAX_PAUSE = 30.0

#: (command, status, detail) -> told to the API
Tell = Callable[[dict[str, Any], str, Any], None]


@dataclass
class _Run:
    """A replay in hand. `due` and `noted` are times of the monotonic clock; `lock` is held while it is worked on."""

    progress: Progress
    waiting: deque[Past] = field(default_factory=deque)
    behind: Position | None = None
    due: float = 0.0
    noted: float = 0.0
    failures: int = 0
    over: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class Player:
    """`begin` and `cancel` are for the thread of the commands; all else happens on the player's own."""

    def __init__(self, settings: SparkSettings, tell: Tell) -> None:
        self._tell = tell
        self._log = EventLog(settings)
        self._ledger = ReplayLedger(settings.kafka_bootstrap)
        self._producer = Producer(producer_config(settings.kafka_bootstrap))
        self._runs: dict[str, _Run] = {}
        self._over: set[str] = set()
        self._lock = threading.Lock()
        self._loaded = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="replays", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """End after the beat at hand; what is left is taken up at the next start."""
        self._stopping.set()
        self._thread.join(seconds)

    def begin(self, command: dict[str, Any]) -> None:
        """Take on a replay: when this returns it is noted for good. Taken on twice, it is done once.

        Raises ValueError, KeyError or TypeError for a command that is none, KafkaException when it cannot be noted.
        """
        progress = Progress(command)
        self._wait_loaded()
        with self._lock:
            if progress.request.id in self._over or progress.request.id in self._runs:
                return
        self._ledger.save(progress)
        with self._lock:
            self._runs[progress.request.id] = _Run(progress)

    def cancel(self, tenant: str, replay_id: str) -> dict[str, Any]:
        """End the tenant's replay; returns how far it came. `cancelled` is False when it is over or not known."""
        self._wait_loaded()
        with self._lock:
            run = self._runs.get(replay_id)
            if run is None or run.progress.request.tenant != tenant:
                return {"replay": replay_id, "cancelled": False}
        with run.lock:
            if run.over:
                return {"replay": replay_id, "cancelled": False}
            self._end(run, "cancelled")
        return {"replay": replay_id, "cancelled": True, **run.progress.detail()}

    def _wait_loaded(self) -> None:
        while not self._loaded.wait(0.2):
            if self._stopping.is_set():
                raise KafkaException("stopping")

    # --- the player's own thread ----------------------------------------------------------------------------------

    def _loop(self) -> None:
        self._load()
        while not self._stopping.is_set():
            run = self._next()
            pause = _BEAT if run is None else run.due - time.monotonic()
            if pause > 0:
                self._stopping.wait(min(pause, _BEAT))
            elif run is not None:
                self._surely(run)
        self._producer.flush(5)

    def _load(self) -> None:
        while not self._stopping.is_set():
            try:
                known = self._ledger.load()
            except (KafkaException, UnavailableError) as away:
                log.warning("replays wait for Kafka", error=str(away))
                self._stopping.wait(2.0)
                continue
            with self._lock:
                self._over = {name for name, progress in known.items() if progress.ended}
                self._runs = {name: _Run(held) for name, held in known.items() if not held.ended}
            if self._runs:
                log.info("replays taken up", count=len(self._runs))
            self._loaded.set()
            return

    def _next(self) -> _Run | None:
        """Of the oldest replays the one that is due first."""
        with self._lock:
            runs = list(self._runs.values())[:AT_ONCE]
        return min(runs, key=lambda run: run.due, default=None)

    def _surely(self, run: _Run) -> None:
        try:
            with run.lock:
                if not run.over:
                    self._beat(run)
        except Exception as failed:  # the lake or Kafka away: this replay waits, whatever it is, and goes on
            run.failures += 1
            run.waiting.clear()
            run.behind = None
            run.due = time.monotonic() + min(2.0**run.failures, _MAX_PAUSE)
            log.warning("replay waits", replay=run.progress.request.id, error=str(failed)[:500])
        else:
            run.failures = 0

    def _beat(self, run: _Run) -> None:
        """Send what is due, then note the place when it is time to."""
        progress, started = run.progress, time.monotonic()
        if progress.through is None:
            self._open(run)
        if not run.waiting and not self._fill(run):
            self._end(run, "succeeded")
            return
        count = min(len(run.waiting), max(1, round(progress.request.rate * _BEAT)))
        batch = [run.waiting[number] for number in range(count)]
        self._send(progress, batch)
        for _ in batch:
            run.waiting.popleft()
        if batch:
            progress.position, progress.time = batch[-1].position, rfc3339(batch[-1].accepted)
        if not run.waiting and run.behind is not None:
            progress.position = run.behind
        run.due = max(started, run.due) + count / progress.request.rate
        if run.due < started - 1.0:  # never a burst for what was missed
            run.due = started
        if time.monotonic() - run.noted >= _NOTE_SECONDS:
            self._note(run)

    def _open(self, run: _Run) -> None:
        """Fix where it ends: what comes from now on is not part of it."""
        progress, last = run.progress, self._log.last_commit()
        wanted = progress.request.last_commit
        progress.through = last if wanted is None else min(wanted, last)
        self._note(run)

    def _fill(self, run: _Run) -> bool:
        """Read on; False when there is no more."""
        progress = run.progress
        assert progress.through is not None
        span = self._log.read(progress.request, progress.position, progress.through)
        if span is None:
            return False
        run.waiting.extend(span.events)
        run.behind = span.end
        return True

    def _send(self, progress: Progress, batch: list[Past]) -> None:
        request = progress.request
        headers: list[tuple[str, str | bytes | None]] = [
            ("replayid", request.id),
            ("target", request.target),
            ("filter", "yes" if request.selective else "no"),
        ]
        failures: list[str] = []
        for past in batch:
            self._producer.produce(
                REPLAYS_TOPIC,
                marked(past.event, request.id),
                message_key(request.tenant, past.subject).encode(),
                headers=headers,
                on_delivery=lambda error, _: failures.append(error.str()) if error is not None else None,
            )
        if self._producer.flush(_FLUSH_SECONDS) or failures:
            raise KafkaException(f"replayed events not acknowledged: {failures[:1]}")
        progress.sent += len(batch)
        REPLAYED.inc(len(batch))

    def _note(self, run: _Run) -> None:
        self._ledger.save(run.progress)
        self._tell(run.progress.command, "running", run.progress.detail(len(run.waiting)))
        run.noted = time.monotonic()

    def _end(self, run: _Run, status: str) -> None:
        """Tell first: a crash in between tells again, and a replay is never over without a word."""
        progress = run.progress
        self._tell(progress.command, status, progress.detail())
        progress.ended = datetime.now(UTC)
        try:
            self._ledger.save(progress)
        except KafkaException:
            progress.ended = None
            raise
        run.over = True
        with self._lock:
            del self._runs[progress.request.id]
            self._over.add(progress.request.id)
        log.info("replay over", replay=progress.request.id, status=status, **progress.detail())


def marked(event: str, replay_id: str) -> bytes:
    """The event's own text with one attribute more: numbers and unknown fields stay as their sender wrote them."""
    return f'{event.rstrip()[:-1]},"replayid":{orjson.dumps(replay_id).decode()}}}'.encode()
