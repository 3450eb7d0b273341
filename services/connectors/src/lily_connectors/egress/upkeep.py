"""What keeps the tables right and small: sleepers woken, the pending counted, the old removed."""

from __future__ import annotations

from typing import LiteralString

from lily_common import metrics
from lily_common.logs import get_logger
from lily_connectors.egress.connections import Connection

log = get_logger(__name__)

#: Finished deliveries, with what was told, are kept this long, in days.
KEEP_DAYS = 30
_CHUNK = 5_000

# A delivery without a time waits for the one before it to wake it. Two transactions that just miss each other (it was
# written while the one before was being finished, or its subscription resumed) leave it asleep: this finds it.
_WAKE_SLEEPERS: LiteralString = """
UPDATE deliveries SET next_attempt_at = now()
WHERE owner IS NULL AND next_attempt_at IS NULL AND id IN (
    SELECT DISTINCT ON (d.lane) d.id FROM deliveries d
    JOIN subscriptions s ON s.id = d.subscription_id AND s.status = 'active'
    WHERE d.status = 'pending' ORDER BY d.lane, d.position)
"""
_CANCEL_ORPHANS: LiteralString = """
UPDATE deliveries d SET status = 'cancelled', owner = NULL, next_attempt_at = NULL, finished_at = now()
FROM subscriptions s WHERE s.id = d.subscription_id AND s.status = 'deleted' AND d.status = 'pending'
"""
_COUNT: LiteralString = "SELECT count(*) FROM deliveries WHERE status = 'pending'"
# Attempts and deliveries go with their notice. A notice with anything unfinished stays.
_OLD_NOTICES: LiteralString = """
DELETE FROM notices WHERE id IN (
    SELECT n.id FROM notices n
    WHERE n.created_at < now() - make_interval(days => %s)
      AND NOT EXISTS (SELECT FROM deliveries d WHERE d.notice_id = n.id AND d.status IN ('pending', 'dead'))
    LIMIT %s)
"""
_OLD_SEEN: LiteralString = """
DELETE FROM egress_seen WHERE identity IN (
    SELECT identity FROM egress_seen WHERE seen_at < now() - make_interval(days => %s) LIMIT %s)
"""
# What is over (a detached tag, a resolved incident, a delete) is kept as long as a late older event may come.
_OLD_TOMBSTONES: LiteralString = """
DELETE FROM egress_registers WHERE (tenant, asset, family, register) IN (
    SELECT tenant, asset, family, register FROM egress_registers
    WHERE (NOT live OR kind = 'deleted') AND updated_at < now() - make_interval(days => %s)
    LIMIT %s)
"""


async def wake_sleepers(connection: Connection) -> int:
    """Give a time to every head of a lane that has none; returns how many. Also counts what is pending."""
    woken = (await connection.execute(_WAKE_SLEEPERS)).rowcount
    await connection.execute(_CANCEL_ORPHANS)
    row = await (await connection.execute(_COUNT)).fetchone()
    metrics.DELIVERIES_PENDING.set(row[0] if row else 0)
    if woken:
        log.info("sleeping deliveries woken", count=woken)
    return woken


async def remove_old(connection: Connection, dedupe_days: int, tombstone_days: int) -> None:
    """Remove what is past its time, in chunks, each its own transaction."""
    for statement, days in (
        (_OLD_NOTICES, KEEP_DAYS),
        (_OLD_SEEN, dedupe_days),
        (_OLD_TOMBSTONES, tombstone_days),
    ):
        while (await connection.execute(statement, (days, _CHUNK))).rowcount >= _CHUNK:
            pass
