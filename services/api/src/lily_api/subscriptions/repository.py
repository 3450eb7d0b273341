"""Queries on subscriptions."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from lily_common.db import tenant_scope
from lily_connectors.egress.models import (
    DEAD,
    DELETED,
    NOTIFY_CHANNEL,
    PENDING,
    Delivery,
    Subscription,
)


async def get(
    session: AsyncSession, tenant: str, subscription_id: str, *, lock: bool = False
) -> Subscription | None:
    statement = tenant_scope(select(Subscription), Subscription, tenant).where(
        Subscription.id == subscription_id, Subscription.status != DELETED
    )
    return (await session.scalars(statement.with_for_update() if lock else statement)).one_or_none()


async def list_page(
    session: AsyncSession, tenant: str, after: tuple[datetime, str] | None, limit: int
) -> list[Subscription]:
    """Newest first, older than `after` (creation time, id)."""
    statement = tenant_scope(select(Subscription), Subscription, tenant).where(Subscription.status != DELETED)
    if after is not None:
        statement = statement.where(tuple_(Subscription.created_at, Subscription.id) < after)
    statement = statement.order_by(Subscription.created_at.desc(), Subscription.id.desc()).limit(limit)
    return list(await session.scalars(statement))


async def count(session: AsyncSession, tenant: str) -> int:
    statement = tenant_scope(select(func.count()).select_from(Subscription), Subscription, tenant).where(
        Subscription.status != DELETED
    )
    return int(await session.scalar(statement) or 0)


async def wake_heads(session: AsyncSession, tenant: str, subscription_id: str) -> None:
    """Give a time to the first waiting delivery of each asset; egress is told at commit."""
    heads = (
        tenant_scope(select(func.min(Delivery.position)), Delivery, tenant)
        .where(Delivery.subscription_id == subscription_id, Delivery.status == PENDING)
        .group_by(Delivery.lane)
    )
    await session.execute(
        tenant_scope(update(Delivery), Delivery, tenant)
        .where(
            Delivery.subscription_id == subscription_id,
            Delivery.position.in_(heads),
            Delivery.next_attempt_at.is_(None),
            Delivery.owner.is_(None),
        )
        .values(next_attempt_at=func.now())
        .execution_options(synchronize_session=False)
    )
    await notify(session)


async def revive_dead(session: AsyncSession, tenant: str, subscription_id: str) -> int:
    """Make every dead delivery pending again, with all its attempts before it; returns how many."""
    statement = (
        tenant_scope(update(Delivery), Delivery, tenant)
        .where(Delivery.subscription_id == subscription_id, Delivery.status == DEAD)
        .values(status=PENDING, tries=0, owner=None, next_attempt_at=None, finished_at=None)
        .returning(Delivery.id)
        .execution_options(synchronize_session=False)
    )
    return len((await session.scalars(statement)).all())


async def notify(session: AsyncSession, what: str = "deliveries") -> None:
    """Wake the egress workers when this transaction commits."""
    await session.execute(select(func.pg_notify(NOTIFY_CHANNEL, what)))
