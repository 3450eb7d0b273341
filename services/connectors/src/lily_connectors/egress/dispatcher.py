"""Order and bounds: which delivery is attempted when.

A *lane* is one subscription's deliveries about one asset; its head is attempted, and only when that is done with, the
next. A *channel* is one subscription; it attempts so many lanes at a time, so that a slow receiver holds up its own
deliveries only. A tenant's channels share a bound. What does not fit into memory stays in the table and is claimed.

A lane leaves memory when it is empty and all its results are recorded, or *released*: its jobs go back to the table, to
be claimed again by whoever comes first. A lane with rows in the table behind those in memory is *spilled*: new
deliveries follow into the table, else they would overtake.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID

from lily_common import metrics
from lily_common.logs import get_logger
from lily_connectors.contract import Outcome, Ports
from lily_connectors.egress.book import Book, Subscriber
from lily_connectors.egress.jobs import Job, Mode, Result, Status

log = get_logger(__name__)

#: Most jobs of one subscription in memory, and most bytes of all bodies.
MAX_HELD = 2_000
MAX_HELD_BYTES = 128 * 1024 * 1024
#: Most attempts of one tenant at a time (its Kafka topic not counted).
TENANT_CONCURRENCY = 128
#: A longer pause than this is waited for in the table, in seconds.
MAX_MEMORY_PAUSE = 30.0
_ERROR_LENGTH = 500


class Recorder(Protocol):
    """Where results go (`ledger.Ledger`)."""

    def put(self, result: Result) -> None: ...

    def release(self, jobs: Iterable[Job]) -> None: ...

    def disable(self, subscriber: Subscriber, reason: str) -> None: ...


@dataclass
class Lane:
    """Jobs in order. `idle`: nothing runs or waits. `unrecorded`: finished jobs whose result is not in the table yet."""

    key: UUID
    subscription_id: str
    queue: deque[Job] = field(default_factory=deque)
    idle: bool = True
    unrecorded: int = 0
    spilled: bool = False
    released: bool = False
    timer: asyncio.TimerHandle | None = None


@dataclass
class Channel:
    """One subscription's lanes that are ready, and how many run."""

    subscription_id: str
    tenant: str
    limit: int
    bounded: bool
    ready: deque[Lane] = field(default_factory=deque)
    running: int = 0
    held: int = 0


class Dispatcher:
    """Holds the deliveries in hand and attempts them. Lives in one event loop; nothing here blocks."""

    def __init__(
        self,
        book: Book,
        ports: Ports,
        recorder: Recorder,
        *,
        uniform: Callable[[float, float], float] = random.uniform,
        max_held: int = MAX_HELD,
        max_concurrency: int | None = None,
    ) -> None:
        """`max_concurrency` bounds the attempts of one subscription at a time below what its sink allows."""
        self._book = book
        self._ports = ports
        self._recorder = recorder
        self._uniform = uniform
        self._max_held = max_held
        self._max_concurrency = max_concurrency
        self._lanes: dict[UUID, Lane] = {}
        self._channels: dict[str, Channel] = {}
        self._tenant_running: dict[str, int] = {}
        self._tenant_waiting: dict[str, set[str]] = {}
        self._planned: set[UUID] = set()
        self._bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    # --- taking deliveries in -------------------------------------------------------------------------------------

    def plan(self, subscriber: Subscriber, lane_key: UUID) -> Mode:
        """How a delivery about to be written will be taken. Follow with `hand_over` or `forget_plan`."""
        lane = self._lanes.get(lane_key)
        self._planned.add(lane_key)
        if not subscriber.active:
            mode = Mode.HOLD
        elif (lane is not None and (lane.spilled or lane.released)) or not self._has_room(subscriber.id):
            mode = Mode.PARK
        else:
            return Mode.FRESH if lane is None else Mode.QUEUE
        if lane is not None:
            lane.spilled = True
        return mode

    def hand_over(self, jobs: Iterable[Job]) -> None:
        """Take the deliveries that were written as this worker's; attempts begin at once."""
        for job in jobs:
            lane = self._lanes.get(job.lane)
            if lane is not None and lane.released:
                # Since the plan the lane's head went back to the table: this one must not overtake it.
                self._recorder.release([job])
            else:
                self._add(job)
        self.forget_plan()

    def forget_plan(self) -> None:
        for key in self._planned:
            lane = self._lanes.get(key)
            if lane is not None and lane.released:
                del self._lanes[key]
        self._planned.clear()

    def doubt_plan(self) -> None:
        """It is not known whether the planned deliveries were written: if so they are in the table, and come first."""
        for key in self._planned:
            lane = self._lanes.get(key)
            if lane is not None:
                lane.spilled = True
        self.forget_plan()

    def adopt(self, jobs: Iterable[Job]) -> None:
        """Take deliveries claimed from the table, in order."""
        for job in jobs:
            lane = self._lanes.get(job.lane)
            if lane is not None and lane.released:
                del self._lanes[job.lane]
            self._add(job)

    def claimable(self) -> list[str]:
        """Subscriptions whose deliveries may be claimed: active, with room."""
        if self._stopping:
            return []
        return [s.id for s in self._book.all() if s.active and self._has_room(s.id, share=2)]

    def retry_now(self, delivery_id: UUID) -> None:
        """End the pause of a delivery in hand."""
        for lane in self._lanes.values():
            if lane.timer is not None and lane.queue and lane.queue[0].id == delivery_id:
                lane.timer.cancel()
                self._make_ready(lane)

    def _has_room(self, subscription_id: str, *, share: int = 1) -> bool:
        channel = self._channels.get(subscription_id)
        held = channel.held if channel is not None else 0
        return held < self._max_held // share and self._bytes < MAX_HELD_BYTES // share

    def _add(self, job: Job) -> None:
        lane = self._lanes.get(job.lane)
        if lane is None:
            lane = self._lanes[job.lane] = Lane(job.lane, job.subscription_id)
        lane.queue.append(job)
        self._bytes += len(job.notice.body)
        channel = self._channel(job)
        channel.held += 1
        if lane.idle:
            self._make_ready(lane)

    def _channel(self, job: Job) -> Channel:
        channel = self._channels.get(job.subscription_id)
        if channel is None:
            subscriber = self._book.get(job.subscription_id)
            limit, bounded = 1, True
            if subscriber is not None:
                limit, bounded = subscriber.concurrency, not subscriber.managed
            if self._max_concurrency is not None:
                limit = min(limit, self._max_concurrency)
            channel = Channel(job.subscription_id, job.notice.tenant, limit, bounded)
            self._channels[job.subscription_id] = channel
        return channel

    # --- attempting -----------------------------------------------------------------------------------------------

    def _make_ready(self, lane: Lane) -> None:
        lane.idle = False
        lane.timer = None
        channel = self._channels[lane.subscription_id]
        channel.ready.append(lane)
        self._pump(channel)

    def _pump(self, channel: Channel) -> None:
        while channel.ready and channel.running < channel.limit and not self._stopping:
            if channel.bounded:
                running = self._tenant_running.get(channel.tenant, 0)
                if running >= TENANT_CONCURRENCY:
                    self._tenant_waiting.setdefault(channel.tenant, set()).add(channel.subscription_id)
                    return
                self._tenant_running[channel.tenant] = running + 1
            channel.running += 1
            task = asyncio.create_task(self._serve(channel.ready.popleft(), channel))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, lane: Lane, channel: Channel) -> None:
        """One attempt of the lane's head, then the lane goes to the end of its channel's line."""
        try:
            subscriber = self._book.get(lane.subscription_id)
            if subscriber is None or not subscriber.active:
                self._release(lane)
                return
            job = lane.queue[0]
            result = await self._attempt(job, subscriber)
            self._settle(lane, job, result, subscriber)
        finally:
            channel.running -= 1
            if channel.bounded:
                self._tenant_running[channel.tenant] -= 1
            self._pump(channel)
            self._pump_waiting(channel.tenant)
            self._tidy(channel)

    def _pump_waiting(self, tenant: str) -> None:
        waiting = self._tenant_waiting.get(tenant)
        if waiting and self._tenant_running.get(tenant, 0) < TENANT_CONCURRENCY:
            other = self._channels.get(waiting.pop())
            if other is not None:
                self._pump(other)

    def _tidy(self, channel: Channel) -> None:
        if channel.held == 0 and channel.running == 0 and not channel.ready:
            self._channels.pop(channel.subscription_id, None)

    async def _attempt(self, job: Job, subscriber: Subscriber) -> Result:
        sent_at = datetime.now(UTC)
        started = time.perf_counter()
        try:
            sink = subscriber.sink(sent_at)
            outcome = await sink.send(sink.render(job.notice, sent_at), self._ports, subscriber.timeout)
        except Exception as failed:
            log.exception("attempt failed", subscription=subscriber.id, delivery=str(job.id))
            outcome = Outcome(False, error=f"{type(failed).__name__}: {failed}"[:_ERROR_LENGTH])
        duration = time.perf_counter() - started
        job.attempts += 1
        job.tries += 1
        job.first_sent_at = job.first_sent_at or sent_at
        status, pause = self._verdict(job, subscriber, outcome)
        metrics.ATTEMPTS.labels(subscriber.kind, status.value).inc()
        metrics.ATTEMPT_SECONDS.labels(subscriber.kind).observe(duration)
        if status is Status.DELIVERED and job.accepted_at is not None:
            took = (sent_at - job.accepted_at).total_seconds() + duration
            metrics.DELIVERY_SECONDS.labels(subscriber.kind).observe(max(took, 0.0))
        return Result(
            job=job,
            number=job.attempts,
            tries=job.tries,
            status=status,
            outcome=outcome,
            sent_at=sent_at,
            duration_ms=duration * 1000,
            next_attempt_at=None if pause is None else datetime.now(UTC) + timedelta(seconds=pause),
            kept=pause is not None and pause <= MAX_MEMORY_PAUSE,
        )

    def _verdict(self, job: Job, subscriber: Subscriber, outcome: Outcome) -> tuple[Status, float | None]:
        if outcome.ok:
            return Status.DELIVERED, None
        if outcome.gone:
            return Status.GONE, None
        pause = subscriber.retry.pause(job.tries, outcome.retry_after, self._uniform)
        return (Status.DEAD, None) if pause is None else (Status.RETRY, pause)

    def _settle(self, lane: Lane, job: Job, result: Result, subscriber: Subscriber) -> None:
        if result.status is Status.RETRY:
            if result.kept and not self._stopping and result.next_attempt_at is not None:
                self._recorder.put(result)
                pause = (result.next_attempt_at - datetime.now(UTC)).total_seconds()
                lane.timer = asyncio.get_running_loop().call_later(max(pause, 0.0), self._make_ready, lane)
                return
            self._drop_head(lane, job)
            self._recorder.put(result)
            self._release(lane)
            return
        self._drop_head(lane, job)
        lane.unrecorded += 1
        self._recorder.put(result)
        if result.status is Status.GONE:
            self._recorder.disable(subscriber, "the receiver answered 410 Gone")
            self._release(lane)
        elif lane.queue:
            self._make_ready(lane)
        else:
            lane.idle = True

    def _drop_head(self, lane: Lane, job: Job) -> None:
        lane.queue.popleft()
        self._bytes -= len(job.notice.body)
        self._channels[lane.subscription_id].held -= 1

    def _release(self, lane: Lane) -> None:
        """Give the lane's jobs back to the table."""
        jobs = list(lane.queue)
        for job in jobs:
            self._drop_head(lane, job)
        self._recorder.release(jobs)
        lane.idle, lane.released = True, True
        if lane.key not in self._planned:
            self._lanes.pop(lane.key, None)

    # --- afterwards -----------------------------------------------------------------------------------------------

    def drained(self, lane_key: UUID) -> bool:
        """Whether nothing of the lane is left in memory: the table's next one may be woken."""
        lane = self._lanes.get(lane_key)
        return lane is None or lane.released or not lane.queue

    def recorded(self, results: Sequence[Result]) -> None:
        """These results are in the table now."""
        for result in results:
            lane = self._lanes.get(result.job.lane)
            if lane is None or lane.released or result.status is Status.RETRY:
                continue
            lane.unrecorded -= 1
            if lane.idle and not lane.queue and lane.unrecorded <= 0:
                del self._lanes[lane.key]

    async def stop(self, grace: float) -> None:
        """Begin nothing new, let running attempts end for `grace` seconds, then cut them off (they count as not made)."""
        self._stopping = True
        for lane in self._lanes.values():
            if lane.timer is not None:
                lane.timer.cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
