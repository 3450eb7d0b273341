"""The transaction of a batch: what is known is read, what is news is decided, state and deliveries are written.

All of it is a handful of set-based statements in two round trips, whatever the batch's size: the caller opens a pipeline
around the transaction. One transaction per batch:

1. lock the batch's Kafka partitions (a second worker that still holds an old assignment waits, so that the judgement of
   one asset is never made twice at once), read the identities seen, the registers touched, the tenants' generations;
2. decide in memory (`transitions`, `matching`); write identities, registers, notices and deliveries; commit.

The caller commits the Kafka offsets after that. A crash in between repeats the batch, whose identities are then seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString
from uuid import UUID

from psycopg import AsyncCursor
from psycopg.rows import TupleRow

from lily_connectors.egress.connections import Connection
from lily_connectors.egress.digests import digest, folded_key
from lily_connectors.egress.notices import Notice
from lily_connectors.egress.transitions import (
    Asset,
    Held,
    RegisterKey,
    Transition,
    families_of,
    needs_all_tags,
    tag_family,
)

Cursor = AsyncCursor[TupleRow]

#: First key of the advisory locks on partitions of `lily.notices`; the second is the partition.
PARTITION_LOCK = 0x4C650001

_LOCK: LiteralString = "SELECT pg_advisory_xact_lock(%s, p) FROM unnest(%s::int[]) AS p"
_SEEN: LiteralString = "SELECT identity FROM egress_seen WHERE identity = ANY(%s::uuid[])"
_GENERATIONS: LiteralString = (
    "SELECT tenant, generation FROM subscription_generations WHERE tenant = ANY(%s::text[])"
)
_REGISTERS: LiteralString = """
SELECT r.asset, r.family, r.member, r.kind, r.tag, r.version, r.live, r.content
FROM unnest(%s::text[], %s::uuid[], %s::uuid[]) AS k (tenant, asset, family)
JOIN egress_registers r ON r.tenant = k.tenant AND r.asset = k.asset AND r.family = k.family
"""
_ALL_TAGS: LiteralString = """
SELECT r.asset, r.family, r.member, r.kind, r.tag, r.version, r.live, r.content
FROM unnest(%s::text[], %s::uuid[]) AS k (tenant, asset)
JOIN egress_registers r ON r.tenant = k.tenant AND r.asset = k.asset AND r.kind = 'tag'
"""
_WRITE_SEEN: LiteralString = """
INSERT INTO egress_seen (tenant, identity)
SELECT * FROM unnest(%s::text[], %s::uuid[]) ON CONFLICT DO NOTHING
"""
_WRITE_REGISTERS: LiteralString = """
INSERT INTO egress_registers AS held
    (tenant, asset, family, register, kind, tag, member, version, live, content, folded)
SELECT * FROM unnest(%s::text[], %s::uuid[], %s::uuid[], %s::uuid[], %s::text[], %s::text[], %s::text[],
                     %s::text[], %s::bool[], %s::uuid[], %s::uuid[])
ON CONFLICT (tenant, asset, family, register) DO UPDATE
SET kind = excluded.kind, tag = excluded.tag, version = excluded.version, live = excluded.live,
    content = excluded.content, folded = excluded.folded, updated_at = now()
WHERE excluded.version > held.version
"""
_WRITE_NOTICES: LiteralString = """
INSERT INTO notices (tenant, id, asset, source, event_id, type, subject, transition, body,
                     accepted_at, noticed_at, consumed_at)
SELECT * FROM unnest(%s::text[], %s::uuid[], %s::uuid[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
                     %s::text[], %s::timestamptz[], %s::timestamptz[], %s::timestamptz[])
ON CONFLICT (id) DO NOTHING
"""
# The mode says what the dispatcher can do with the delivery (see `dispatcher.Mode`). A delivery behind an earlier one
# that is not in this worker's memory gets no time: it is woken when that one is done.
_WRITE_DELIVERIES: LiteralString = """
INSERT INTO deliveries
    (tenant, id, subscription_id, notice_id, lane, replay_id, committed_at, owner, next_attempt_at)
SELECT n.tenant, n.id, n.subscription_id, n.notice_id, n.lane, n.replay_id, clock_timestamp(),
       CASE WHEN n.mode = 'queue' OR (n.mode = 'fresh' AND NOT lane.busy) THEN %s::int END,
       CASE WHEN n.mode = 'queue' OR (n.mode <> 'hold' AND NOT lane.busy) THEN now() END
FROM unnest(%s::text[], %s::uuid[], %s::text[], %s::uuid[], %s::uuid[], %s::text[], %s::text[])
     WITH ORDINALITY AS n (tenant, id, subscription_id, notice_id, lane, mode, replay_id, ord)
CROSS JOIN LATERAL (
    SELECT EXISTS (SELECT FROM deliveries d WHERE d.lane = n.lane AND d.status = 'pending') AS busy
) AS lane
ORDER BY n.ord
ON CONFLICT (id) DO NOTHING
RETURNING id, position, owner IS NOT NULL
"""

_GIVE_BACK: LiteralString = """
UPDATE deliveries SET owner = NULL, next_attempt_at = now()
WHERE id = ANY(%s::uuid[]) AND owner = %s AND status = 'pending'
"""


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """A delivery to be written. `mode` is the dispatcher's word (see `dispatcher.Mode`); `replay_id` None: live."""

    id: UUID
    subscription_id: str
    lane: UUID
    transition: Transition
    mode: str
    replay_id: str | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a new delivery: its place in the order, and whether this worker has it in hand."""

    id: UUID
    position: int
    owned: bool


@dataclass(frozen=True, slots=True)
class Known:
    """What the database knows about a batch."""

    seen: frozenset[UUID]
    assets: Mapping[UUID, Asset]
    generations: Mapping[str, int]


async def read_generations(connection: Connection, tenants: Iterable[str]) -> dict[str, int]:
    """How often these tenants' subscriptions have changed."""
    rows = await connection.execute(_GENERATIONS, (list(tenants),))
    return dict(await rows.fetchall())


async def read_known(connection: Connection, notices: Sequence[Notice], partitions: Iterable[int]) -> Known:
    """Lock the partitions and read everything that the batch touches, in one round trip."""
    names: dict[UUID, str] = {}
    touched: dict[tuple[UUID, UUID], str] = {}
    deleted: dict[UUID, str] = {}
    for notice in notices:
        for family in families_of(notice):
            key = digest(family)
            names[key] = family
            touched[notice.asset, key] = notice.tenant
        if needs_all_tags(notice):
            deleted[notice.asset] = notice.tenant
    await connection.execute(_LOCK, (PARTITION_LOCK, sorted(set(partitions))))
    seen = await connection.execute(_SEEN, ([notice.identity for notice in notices],))
    generations = await connection.execute(_GENERATIONS, (list({notice.tenant for notice in notices}),))
    registers = await connection.execute(
        _REGISTERS,
        (list(touched.values()), [asset for asset, _ in touched], [family for _, family in touched]),
    )
    tags = await connection.execute(_ALL_TAGS, (list(deleted.values()), list(deleted))) if deleted else None
    seen_rows, generation_rows = await seen.fetchall(), await generations.fetchall()
    register_rows = await registers.fetchall()
    tag_rows = await tags.fetchall() if tags is not None else []
    assets: dict[UUID, Asset] = {}
    for row in (*register_rows, *tag_rows):
        asset_id, family_key, member, kind, tag, version, live, content = row
        family = tag_family(tag) if kind == "tag" else names[family_key]
        asset = assets.setdefault(asset_id, Asset())
        asset.put(RegisterKey(family, member), Held(kind, tag, version, live, content))
    return Known(frozenset(row[0] for row in seen_rows), assets, dict(generation_rows))


async def write_batch(
    connection: Connection,
    fresh: Sequence[Notice],
    assets: Mapping[UUID, Asset],
    deliveries: Sequence[NewDelivery],
    owner: int,
) -> Cursor | None:
    """Queue the writes; they go out with the commit. `written` reads what became of the deliveries after it."""
    if fresh:
        await connection.execute(
            _WRITE_SEEN, ([notice.tenant for notice in fresh], [notice.identity for notice in fresh])
        )
    registers = _register_columns({notice.asset: notice for notice in fresh}, assets)
    if registers is not None:
        await connection.execute(_WRITE_REGISTERS, registers)
    if not deliveries:
        return None
    told = {delivery.transition.identity: delivery.transition for delivery in deliveries}
    await connection.execute(_WRITE_NOTICES, _notice_columns(list(told.values())))
    return await connection.execute(
        _WRITE_DELIVERIES,
        (
            owner,
            [delivery.transition.cause.tenant for delivery in deliveries],
            [delivery.id for delivery in deliveries],
            [delivery.subscription_id for delivery in deliveries],
            [delivery.transition.identity for delivery in deliveries],
            [delivery.lane for delivery in deliveries],
            [delivery.mode for delivery in deliveries],
            [delivery.replay_id for delivery in deliveries],
        ),
    )


async def written(cursor: Cursor | None) -> list[Written]:
    """After the commit: the deliveries that are new, in order. Those that existed already are not among them."""
    rows = await cursor.fetchall() if cursor is not None else []
    return sorted((Written(*row) for row in rows), key=lambda row: row.position)


async def give_back(connection: Connection, ids: Sequence[UUID], owner: int) -> None:
    """Free deliveries of which it is not known whether this worker owns them: a commit's answer was lost.

    Only for ids that are not in memory. They are claimed again, in order.
    """
    await connection.execute(_GIVE_BACK, (list(ids), owner))


def _register_columns(
    notices: Mapping[UUID, Notice], assets: Mapping[UUID, Asset]
) -> tuple[list[Any], ...] | None:
    # Sorted, so that two transactions never lock the same rows in opposite orders.
    rows = sorted(
        (
            (
                notices[asset_id].tenant,
                asset_id,
                digest(key.family),
                digest(key.family, key.member),
                key,
                held,
            )
            for asset_id, asset in assets.items()
            for key, held in asset.written.items()
        ),
        key=lambda row: row[:4],
    )
    if not rows:
        return None
    return (
        [row[0] for row in rows],
        [row[1] for row in rows],
        [row[2] for row in rows],
        [row[3] for row in rows],
        [row[5].kind for row in rows],
        [row[5].tag for row in rows],
        [row[4].member for row in rows],
        [row[5].version for row in rows],
        [row[5].live for row in rows],
        [row[5].content for row in rows],
        [folded_key(row[0], notices[row[1]].subject) for row in rows],
    )


def _notice_columns(told: Sequence[Transition]) -> tuple[list[Any], ...]:
    causes = [transition.cause for transition in told]
    return (
        [cause.tenant for cause in causes],
        [transition.identity for transition in told],
        [cause.asset for cause in causes],
        [transition.source for transition in told],
        [transition.event_id for transition in told],
        [transition.type for transition in told],
        [cause.subject for cause in causes],
        [transition.name for transition in told],
        [transition.body.decode() for transition in told],
        [cause.accepted_at for cause in causes],
        [cause.noticed_at for cause in causes],
        [cause.consumed_at for cause in causes],
    )
