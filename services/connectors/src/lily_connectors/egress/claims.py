"""Deliveries from the table into this worker's hands: retries that are due, what a dead worker left, what had no room.

Only the head of a lane can be claimed; what follows it comes along. A delivery is free when nobody owns it or its owner's
session is gone (its advisory lock is not held any more).
"""

from __future__ import annotations

from typing import LiteralString
from uuid import UUID

from psycopg.rows import TupleRow

from lily_connectors.contract import OutboundNotice
from lily_connectors.egress.connections import WORKER_LOCK, Connection
from lily_connectors.egress.jobs import Job
from lily_connectors.egress.store import give_back

#: Most lanes claimed per subscription, and most deliveries that come along per lane, in one go.
HEADS = 100
FOLLOWERS = 20

#: Live deliveries and replayed ones are claimed apart, so that a long replay stands in nobody's way.
_LIVE: LiteralString = "d.replay_id IS NULL"
_REPLAYED: LiteralString = "d.replay_id IS NOT NULL"
_CLAIM: LiteralString = """
WITH living AS (
    SELECT objid::bigint AS number FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND classid = %(lock)s AND objsubid = 2
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
), heads AS (
    SELECT head.* FROM unnest(%(subscriptions)s::text[]) AS s (id)
    CROSS JOIN LATERAL (
        SELECT d.id, d.lane, d.position FROM deliveries d
        WHERE d.subscription_id = s.id AND d.status = 'pending' AND d.next_attempt_at <= now()
          AND {whose} AND (d.owner IS NULL OR d.owner NOT IN (SELECT number FROM living))
          AND NOT EXISTS (
              SELECT FROM deliveries e WHERE e.lane = d.lane AND e.status = 'pending' AND e.position < d.position)
        ORDER BY d.next_attempt_at, d.position LIMIT %(heads)s
        FOR UPDATE OF d SKIP LOCKED
    ) AS head
), followers AS (
    SELECT f.id FROM heads
    CROSS JOIN LATERAL (
        SELECT d.id FROM deliveries d
        WHERE d.lane = heads.lane AND d.status = 'pending' AND d.position > heads.position
          AND (d.owner IS NULL OR d.owner NOT IN (SELECT number FROM living))
        ORDER BY d.position LIMIT %(followers)s
    ) AS f
), claimed AS (
    UPDATE deliveries d SET owner = %(owner)s, next_attempt_at = now()
    FROM (SELECT id FROM heads UNION ALL SELECT id FROM followers) AS c
    WHERE d.id = c.id AND d.status = 'pending'
    RETURNING d.id, d.position, d.subscription_id, d.lane, d.notice_id, d.tenant, d.committed_at, d.first_sent_at,
              d.attempts, d.tries
)
SELECT c.id, c.position, c.subscription_id, c.lane, c.tenant, n.type, n.subject, n.transition, n.body, n.accepted_at,
       c.committed_at, c.first_sent_at, c.attempts, c.tries
FROM claimed c JOIN notices n ON n.id = c.notice_id
ORDER BY c.position
"""


class Claims:
    """Claims deliveries for one worker: the live ones, or those of replays."""

    def __init__(self, owner: int, *, replayed: bool = False) -> None:
        self._owner = owner
        self._statement: LiteralString = _CLAIM.replace("{whose}", _REPLAYED if replayed else _LIVE)
        #: Deliveries claimed by a transaction that failed: its commit may have been done all the same.
        self._doubtful: list[UUID] = []

    async def claim(self, connection: Connection, subscriptions: list[str]) -> list[Job]:
        """Claim what is due of these subscriptions, in order. Raises psycopg.Error; then call again."""
        if self._doubtful:
            await give_back(connection, self._doubtful, self._owner)
            self._doubtful = []
        if not subscriptions:
            return []
        wanted = {
            "lock": WORKER_LOCK,
            "subscriptions": subscriptions,
            "heads": HEADS,
            "followers": FOLLOWERS,
            "owner": self._owner,
        }
        jobs: list[Job] = []
        try:
            async with connection.transaction():
                cursor = await connection.execute(self._statement, wanted)
                jobs = [_job(row) for row in await cursor.fetchall()]
        except BaseException:
            self._doubtful = [job.id for job in jobs]
            raise
        return jobs


def _job(row: TupleRow) -> Job:
    return Job(
        id=row[0],
        position=row[1],
        subscription_id=row[2],
        lane=row[3],
        notice=OutboundNotice(str(row[0]), row[4], row[5], row[6], row[7], row[8].encode()),
        accepted_at=row[9],
        committed_at=row[10],
        first_sent_at=row[11],
        attempts=row[12],
        tries=row[13],
    )
