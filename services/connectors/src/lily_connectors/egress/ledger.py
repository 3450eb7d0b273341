"""What became of deliveries, written to the table in groups: attempts, verdicts, and what follows from them.

Results are written in the order they came, so that an earlier delivery of a lane is never recorded after a later one. The
writes need not be on disk at commit: what a crash of PostgreSQL loses is delivered again under the same id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, LiteralString
from uuid import UUID

import orjson
import psycopg

from lily_common.errors import LilyError
from lily_common.events import DLQ_DELIVERIES_TOPIC
from lily_common.kafka import Producer, Record
from lily_common.logs import get_logger
from lily_common.names import message_key
from lily_connectors.egress.book import Subscriber
from lily_connectors.egress.connections import Connection, close_quietly, connect
from lily_connectors.egress.dispatcher import Dispatcher
from lily_connectors.egress.jobs import Job, Result, Status

log = get_logger(__name__)

#: Results are gathered this long before they are written, in seconds.
LINGER = 0.005
_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)

# The join: what was removed meanwhile (erased, past its time) has no attempts any more.
_ATTEMPTS: LiteralString = """
INSERT INTO delivery_attempts (tenant, delivery_id, number, sent_at, duration_ms, ok, status_code, error, response)
SELECT d.tenant, a.delivery_id, a.number, a.sent_at, a.duration_ms, a.ok, a.status_code, a.error, a.response
FROM unnest(%s::uuid[], %s::int[], %s::timestamptz[], %s::float8[], %s::bool[], %s::int[], %s::text[], %s::text[])
     AS a (delivery_id, number, sent_at, duration_ms, ok, status_code, error, response)
JOIN deliveries d ON d.id = a.delivery_id
ON CONFLICT (delivery_id, number) DO NOTHING
"""
# `kept` jobs stay this worker's. A row that meanwhile is no longer pending (cancelled, retried by hand) keeps its status.
_VERDICTS: LiteralString = """
UPDATE deliveries d
SET status = CASE WHEN d.status = 'pending' THEN r.status ELSE d.status END,
    owner = CASE WHEN r.kept THEN d.owner END,
    next_attempt_at = r.next_attempt_at, attempts = r.attempts, tries = r.tries,
    last_status_code = r.status_code, last_error = r.error,
    committed_at = coalesce(r.committed_at, d.committed_at),
    first_sent_at = coalesce(d.first_sent_at, r.first_sent_at), finished_at = r.finished_at
FROM unnest(%s::uuid[], %s::text[], %s::bool[], %s::timestamptz[], %s::int[], %s::int[], %s::int[], %s::text[],
            %s::timestamptz[], %s::timestamptz[], %s::timestamptz[])
     AS r (id, status, kept, next_attempt_at, attempts, tries, status_code, error,
           committed_at, first_sent_at, finished_at)
WHERE d.id = r.id
"""
_RELEASE: LiteralString = """
UPDATE deliveries SET owner = NULL, next_attempt_at = NULL
WHERE id = ANY(%s::uuid[]) AND status = 'pending' AND owner = %s
"""
_WAKE: LiteralString = """
UPDATE deliveries SET next_attempt_at = now()
WHERE next_attempt_at IS NULL AND id IN (
    SELECT next.id FROM unnest(%s::uuid[]) AS k (lane)
    CROSS JOIN LATERAL (
        SELECT d.id FROM deliveries d WHERE d.lane = k.lane AND d.status = 'pending' ORDER BY d.position LIMIT 1
    ) AS next)
RETURNING id
"""
_DISABLE: LiteralString = """
UPDATE subscriptions SET status = 'disabled', status_reason = %s, updated_at = now()
WHERE tenant = %s AND id = %s AND status IN ('active', 'paused')
"""
_BURY: LiteralString = """
UPDATE deliveries SET status = 'dead', owner = NULL, next_attempt_at = NULL, last_error = %s, finished_at = now()
WHERE tenant = %s AND subscription_id = %s AND status = 'pending'
"""


class Ledger:
    """Implements `dispatcher.Recorder`. `run` writes until `close`; `woken` is called when the table has work again."""

    def __init__(self, uri: str, owner: int, producer: Producer, woken: Callable[[], None]) -> None:
        self._uri = uri
        self._owner = owner
        self._producer = producer
        self._woken = woken
        self._dispatcher: Dispatcher | None = None
        self._results: list[Result] = []
        self._releases: list[UUID] = []
        self._disabled: list[tuple[Subscriber, str]] = []
        self._filled = asyncio.Event()
        self._closing = False
        self.healthy = False

    def attach(self, dispatcher: Dispatcher) -> None:
        """Whom to tell what is recorded."""
        self._dispatcher = dispatcher

    def put(self, result: Result) -> None:
        self._results.append(result)
        self._filled.set()

    def release(self, jobs: Iterable[Job]) -> None:
        ids = [job.id for job in jobs]
        if ids:
            self._releases.extend(ids)
            self._filled.set()

    def disable(self, subscriber: Subscriber, reason: str) -> None:
        self._disabled.append((subscriber, reason))
        self._filled.set()

    def close(self) -> None:
        """Write what is there and end."""
        self._closing = True
        self._filled.set()

    async def run(self) -> None:
        connection: Connection | None = None
        try:
            while not (self._closing and not self._any()):
                await self._filled.wait()
                self._filled.clear()
                if not self._closing:
                    await asyncio.sleep(LINGER)
                if self._any():
                    connection = await self._write_surely(connection)
        finally:
            await close_quietly(connection)

    def _any(self) -> bool:
        return bool(self._results or self._releases or self._disabled)

    async def _write_surely(self, connection: Connection | None) -> Connection | None:
        """Write all that has gathered; while PostgreSQL is away, try again."""
        results, self._results = self._results, []
        releases, self._releases = self._releases, []
        disabled, self._disabled = self._disabled, []
        await self._dead_letters([r for r in results if r.status in (Status.DEAD, Status.GONE)])
        failures = 0
        while True:
            try:
                if connection is None:
                    connection = await connect(self._uri, "ledger")
                    await connection.execute("SET synchronous_commit = off")
                    await connection.commit()
                woken = await self._write(connection, results, releases, disabled)
            except psycopg.OperationalError as away:
                self.healthy = False
                await close_quietly(connection)
                connection = None
                log.warning("deliveries not recorded yet", error=str(away), waiting=len(results))
                if self._closing and failures >= len(_PAUSES):
                    raise
                await asyncio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1
                continue
            self.healthy = True
            if self._dispatcher is not None:
                self._dispatcher.recorded(results)
            if woken:
                self._woken()
            return connection

    async def _write(
        self,
        connection: Connection,
        results: Sequence[Result],
        releases: Sequence[UUID],
        disabled: Sequence[tuple[Subscriber, str]],
    ) -> bool:
        """One transaction; says whether deliveries in the table can be claimed now."""
        drained = self._drained(results)
        woken = None
        async with connection.pipeline(), connection.transaction():
            if results:
                await connection.execute(_ATTEMPTS, _attempt_columns(results))
                await connection.execute(_VERDICTS, _verdict_columns(results))
            if releases:
                await connection.execute(_RELEASE, (list(releases), self._owner))
            for subscriber, reason in disabled:
                await connection.execute(_DISABLE, (reason, subscriber.tenant, subscriber.id))
                await connection.execute(
                    _BURY, (f"subscription disabled: {reason}", subscriber.tenant, subscriber.id)
                )
            if drained:
                # After the verdicts, in its own snapshot: it sees the deliveries that were written behind them.
                woken = await connection.execute(_WAKE, (drained,))
        return woken is not None and bool(await woken.fetchall())

    def _drained(self, results: Sequence[Result]) -> list[UUID]:
        final = {r.job.lane for r in results if r.status is not Status.RETRY}
        dispatcher = self._dispatcher
        return [lane for lane in final if dispatcher is None or dispatcher.drained(lane)]

    async def _dead_letters(self, results: Sequence[Result]) -> None:
        """A copy of each on the dead-letter topic. The table is what counts, so Kafka being away holds up nothing."""
        try:
            await self._producer.send([_dead_letter(result) for result in results])
        except LilyError as away:
            log.error("dead letters not copied to Kafka", count=len(results), error=str(away))


def _dead_letter(result: Result) -> Record:
    job = result.job
    reason = result.outcome.error or "gone"
    value = {
        "delivery_id": str(job.id),
        "tenant": job.notice.tenant,
        "subscription_id": job.subscription_id,
        "attempts": result.number,
        "reason": reason,
        "event": orjson.Fragment(job.notice.body),
    }
    key = message_key(job.notice.tenant, job.notice.subject).encode()
    return Record(DLQ_DELIVERIES_TOPIC, key, orjson.dumps(value))


def _attempt_columns(results: Sequence[Result]) -> tuple[list[Any], ...]:
    return (
        [r.job.id for r in results],
        [r.number for r in results],
        [r.sent_at for r in results],
        [r.duration_ms for r in results],
        [r.outcome.ok for r in results],
        [r.outcome.status_code for r in results],
        [r.outcome.error for r in results],
        [r.outcome.snippet for r in results],
    )


def _verdict_columns(results: Sequence[Result]) -> tuple[list[Any], ...]:
    latest = list({r.job.id: r for r in results}.values())  # UPDATE … FROM must not meet a row twice
    now = datetime.now(UTC)
    names = {Status.DELIVERED: "delivered", Status.RETRY: "pending", Status.DEAD: "dead", Status.GONE: "dead"}
    return (
        [r.job.id for r in latest],
        [names[r.status] for r in latest],
        [r.kept for r in latest],
        [r.next_attempt_at for r in latest],
        [r.number for r in latest],
        [r.tries for r in latest],
        [r.outcome.status_code for r in latest],
        [r.outcome.error for r in latest],
        [r.job.committed_at for r in latest],
        [r.job.first_sent_at for r in latest],
        [None if r.status is Status.RETRY else now for r in latest],
    )
