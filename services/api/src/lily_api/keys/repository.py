"""Queries on API keys."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.keys.models import ApiKey
from lily_common.db import tenant_scope


async def get(session: AsyncSession, tenant: str, key_id: str, *, lock: bool = False) -> ApiKey | None:
    statement = tenant_scope(select(ApiKey), ApiKey, tenant).where(ApiKey.id == key_id)
    return (await session.scalars(statement.with_for_update() if lock else statement)).one_or_none()


async def list_page(
    session: AsyncSession, tenant: str, after: tuple[datetime, str] | None, limit: int
) -> list[ApiKey]:
    """Newest first, older than `after` (creation time, id)."""
    statement = tenant_scope(select(ApiKey), ApiKey, tenant)
    if after is not None:
        statement = statement.where(tuple_(ApiKey.created_at, ApiKey.id) < after)
    statement = statement.order_by(ApiKey.created_at.desc(), ApiKey.id.desc()).limit(limit)
    return list(await session.scalars(statement))
