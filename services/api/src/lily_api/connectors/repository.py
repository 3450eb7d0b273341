"""Queries on connectors."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from lily_common.db import tenant_scope
from lily_common.tenancy import across_tenants
from lily_connectors.models import Connector


async def get(
    session: AsyncSession, tenant: str, connector_id: str, *, lock: bool = False
) -> Connector | None:
    statement = tenant_scope(select(Connector), Connector, tenant).where(Connector.id == connector_id)
    return (await session.scalars(statement.with_for_update() if lock else statement)).one_or_none()


async def list_page(
    session: AsyncSession, tenant: str, kind: str | None, after: tuple[datetime, str] | None, limit: int
) -> list[Connector]:
    """Newest first, older than `after` (creation time, id)."""
    statement = tenant_scope(select(Connector), Connector, tenant)
    if kind is not None:
        statement = statement.where(Connector.kind == kind)
    if after is not None:
        statement = statement.where(tuple_(Connector.created_at, Connector.id) < after)
    statement = statement.order_by(Connector.created_at.desc(), Connector.id.desc()).limit(limit)
    return list(await session.scalars(statement))


async def remove(session: AsyncSession, tenant: str, connector_id: str) -> None:
    await session.execute(
        tenant_scope(delete(Connector), Connector, tenant).where(Connector.id == connector_id)
    )


async def called(session: AsyncSession, connector_id: str) -> Connector | None:
    """The connector that a webhook's URL names."""
    statement = select(Connector).where(Connector.id == connector_id)
    why = "a vendor's call names the connector, and the connector its tenant"
    return (await session.scalars(across_tenants(statement, why))).one_or_none()
