"""Queries on declarations."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.declarations.models import Declaration
from lily_common.db import tenant_scope
from lily_common.tenancy import across_tenants

ACTIVE, DELETED = "active", "deleted"
#: (tenant, kind, name)
Key = tuple[str, str, str]


async def get(session: AsyncSession, key: Key, *, lock: bool = False) -> Declaration | None:
    """The declaration, a deleted one included."""
    tenant, kind, name = key
    statement = tenant_scope(select(Declaration), Declaration, tenant)
    statement = statement.where(Declaration.kind == kind, Declaration.name == name)
    return (await session.scalars(statement.with_for_update() if lock else statement)).one_or_none()


async def list_after(
    session: AsyncSession, tenant: str, kind: str, after: str, limit: int
) -> list[Declaration]:
    """By name."""
    statement = tenant_scope(select(Declaration), Declaration, tenant)
    statement = statement.where(
        Declaration.kind == kind, Declaration.name > after, Declaration.status == ACTIVE
    )
    return list(await session.scalars(statement.order_by(Declaration.name).limit(limit)))


async def count(session: AsyncSession, tenant: str, kind: str) -> int:
    statement = tenant_scope(select(func.count()).select_from(Declaration), Declaration, tenant)
    statement = statement.where(Declaration.kind == kind, Declaration.status == ACTIVE)
    return int(await session.scalar(statement) or 0)


async def unpublished(session: AsyncSession, before: datetime, limit: int) -> list[Key]:
    """What changed before that time and Kafka may not have."""
    statement = (
        select(Declaration.tenant, Declaration.kind, Declaration.name)
        .where(~Declaration.published, Declaration.updated_at < before)
        .order_by(Declaration.updated_at)
        .limit(limit)
    )
    why = "the process publishes what it or another left unpublished, whoever's it is"
    return [(row.tenant, row.kind, row.name) for row in await session.execute(across_tenants(statement, why))]


async def every(session: AsyncSession, after: Key, limit: int) -> list[Key]:
    """All declarations, in the order of their keys."""
    columns = (Declaration.tenant, Declaration.kind, Declaration.name)
    statement = select(*columns).where(func.row(*columns) > func.row(*after)).order_by(*columns).limit(limit)
    why = "at its start the process brings the topics in line with the database, whoever's a declaration is"
    return [(row.tenant, row.kind, row.name) for row in await session.execute(across_tenants(statement, why))]
