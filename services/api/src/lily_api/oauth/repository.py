"""Queries on OAuth clients."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.oauth.models import OAuthClient
from lily_common.db import tenant_scope


async def get(
    session: AsyncSession, tenant: str, client_id: str, *, lock: bool = False
) -> OAuthClient | None:
    statement = tenant_scope(select(OAuthClient), OAuthClient, tenant).where(OAuthClient.id == client_id)
    return (await session.scalars(statement.with_for_update() if lock else statement)).one_or_none()


async def list_page(
    session: AsyncSession, tenant: str, after: tuple[datetime, str] | None, limit: int
) -> list[OAuthClient]:
    """Newest first, older than `after` (creation time, id)."""
    statement = tenant_scope(select(OAuthClient), OAuthClient, tenant)
    if after is not None:
        statement = statement.where(tuple_(OAuthClient.created_at, OAuthClient.id) < after)
    statement = statement.order_by(OAuthClient.created_at.desc(), OAuthClient.id.desc()).limit(limit)
    return list(await session.scalars(statement))
