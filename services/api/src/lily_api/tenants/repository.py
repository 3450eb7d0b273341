"""Queries on tenants."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.tenants.models import Tenant


async def get(session: AsyncSession, tenant: str, *, lock: bool = False) -> Tenant | None:
    statement = select(Tenant).where(Tenant.id == tenant)
    return (await session.scalars(statement.with_for_update() if lock else statement)).one_or_none()


async def list_after(session: AsyncSession, after: str, limit: int, *, lock: bool = False) -> list[Tenant]:
    """Tenants whose id is greater than `after`, by id."""
    statement = select(Tenant).where(Tenant.id > after).order_by(Tenant.id).limit(limit)
    return list(await session.scalars(statement.with_for_update() if lock else statement))
