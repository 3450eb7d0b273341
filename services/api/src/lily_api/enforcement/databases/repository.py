"""Queries on kept databases."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.enforcement.databases.models import PAUSED, EnforcedDatabase
from lily_common.db import tenant_scope
from lily_common.tenancy import across_tenants


async def get(
    session: AsyncSession, tenant: str, connector_id: str, *, lock: bool = False
) -> EnforcedDatabase | None:
    statement = tenant_scope(select(EnforcedDatabase), EnforcedDatabase, tenant).where(
        EnforcedDatabase.connector_id == connector_id
    )
    return (await session.scalars(statement.with_for_update() if lock else statement)).one_or_none()


async def count(session: AsyncSession, tenant: str) -> int:
    statement = tenant_scope(select(func.count()).select_from(EnforcedDatabase), EnforcedDatabase, tenant)
    return int(await session.scalar(statement) or 0)


async def active(session: AsyncSession) -> list[EnforcedDatabase]:
    """Every tenant's that has to be looked at."""
    statement = select(EnforcedDatabase).where(EnforcedDatabase.wanted != PAUSED)
    why = "the process keeps every tenant's databases"
    return list(await session.scalars(across_tenants(statement, why)))


async def try_lock(session: AsyncSession, connector_id: str) -> bool:
    """Whether this transaction is the only one, in any process, at work on the database; until its end."""
    return bool(await session.scalar(select(func.pg_try_advisory_xact_lock(func.hashtext(connector_id), 7))))


async def looked(
    session: AsyncSession,
    row: EnforcedDatabase,
    *,
    problem: str | None,
    report: dict[str, Any] | None = None,
) -> None:
    """Write what came of a round, unless what is wanted has changed meanwhile."""
    values: dict[str, Any] = {"problem": problem, "looked_at": func.now()}
    if report is not None:
        values |= {"report": report, "settled": row.revision}
    await session.execute(
        tenant_scope(update(EnforcedDatabase), EnforcedDatabase, row.tenant)
        .where(EnforcedDatabase.connector_id == row.connector_id, EnforcedDatabase.revision == row.revision)
        .values(**values)
        .execution_options(synchronize_session=False)
    )


async def remove(session: AsyncSession, row: EnforcedDatabase) -> None:
    await session.execute(
        tenant_scope(delete(EnforcedDatabase), EnforcedDatabase, row.tenant)
        .where(EnforcedDatabase.connector_id == row.connector_id)
        .execution_options(synchronize_session=False)
    )
