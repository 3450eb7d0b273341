"""Queries on deliveries, notices and attempts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Select, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from lily_common.db import tenant_scope
from lily_connectors.egress.digests import asset_key
from lily_connectors.egress.models import CANCELLED, PENDING, Delivery, DeliveryAttempt, NoticeRow

Row = tuple[Delivery, NoticeRow]


@dataclass(frozen=True)
class Wanted:
    """Filters of the list; None does not filter."""

    subscription_id: str | None = None
    status: str | None = None
    asset: str | None = None
    event_id: str | None = None
    replay_id: str | None = None


def _told(tenant: str) -> Select[Any]:
    """The tenant's deliveries with what they tell."""
    joined: Select[Any] = select(Delivery, NoticeRow).join(NoticeRow, NoticeRow.id == Delivery.notice_id)  # type: ignore[assignment]
    return tenant_scope(tenant_scope(joined, Delivery, tenant), NoticeRow, tenant)


async def list_page(
    session: AsyncSession, tenant: str, wanted: Wanted, before: int | None, limit: int
) -> list[Row]:
    """Newest first, older than `before` (a position)."""
    statement = _told(tenant)
    if before is not None:
        statement = statement.where(Delivery.position < before)
    if wanted.subscription_id is not None:
        statement = statement.where(Delivery.subscription_id == wanted.subscription_id)
    if wanted.status is not None:
        statement = statement.where(Delivery.status == wanted.status)
    if wanted.asset is not None:
        statement = statement.where(NoticeRow.asset == asset_key(tenant, wanted.asset))
    if wanted.event_id is not None:
        statement = statement.where(NoticeRow.event_id == wanted.event_id)
    if wanted.replay_id is not None:
        statement = statement.where(Delivery.replay_id == wanted.replay_id)
    rows = await session.execute(statement.order_by(Delivery.position.desc()).limit(limit))
    return [(delivery, notice) for delivery, notice in rows]


async def get(session: AsyncSession, tenant: str, delivery_id: UUID, *, lock: bool = False) -> Row | None:
    statement = _told(tenant).where(Delivery.id == delivery_id)
    found = await session.execute(statement.with_for_update(of=Delivery) if lock else statement)
    row = found.one_or_none()
    return None if row is None else (row[0], row[1])


async def attempts(session: AsyncSession, tenant: str, delivery_id: UUID) -> list[DeliveryAttempt]:
    statement = (
        tenant_scope(select(DeliveryAttempt), DeliveryAttempt, tenant)
        .where(DeliveryAttempt.delivery_id == delivery_id)
        .order_by(DeliveryAttempt.number)
    )
    return list(await session.scalars(statement))


async def make_due(session: AsyncSession, tenant: str, delivery_id: UUID) -> None:
    """Due now, with a new set of attempts; what a worker has in its hands it is told of instead (see the service)."""
    await session.execute(
        tenant_scope(update(Delivery), Delivery, tenant)
        .where(Delivery.id == delivery_id, or_(Delivery.status != PENDING, Delivery.owner.is_(None)))
        .values(status=PENDING, tries=0, owner=None, next_attempt_at=func.now(), finished_at=None)
        .execution_options(synchronize_session=False)
    )


async def cancel_replay(session: AsyncSession, tenant: str, replay_id: str) -> None:
    """End what is pending of a replay; what a worker has in its hands is sent all the same."""
    await session.execute(
        tenant_scope(update(Delivery), Delivery, tenant)
        .where(Delivery.replay_id == replay_id, Delivery.status == PENDING)
        .values(status=CANCELLED, next_attempt_at=None, finished_at=func.now())
        .execution_options(synchronize_session=False)
    )
