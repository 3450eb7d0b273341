"""Queries on sources of change data."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.capture.models import CaptureSource
from lily_common.db import tenant_scope
from lily_common.tenancy import across_tenants


async def get(
    session: AsyncSession, tenant: str, connector_id: str, *, lock: bool = False
) -> CaptureSource | None:
    statement = tenant_scope(select(CaptureSource), CaptureSource, tenant).where(
        CaptureSource.connector_id == connector_id
    )
    return (await session.scalars(statement.with_for_update() if lock else statement)).one_or_none()


async def count(session: AsyncSession, tenant: str) -> int:
    statement = tenant_scope(select(func.count()).select_from(CaptureSource), CaptureSource, tenant)
    return int(await session.scalar(statement) or 0)


async def due(session: AsyncSession, now: datetime, limit: int) -> list[tuple[str, str]]:
    """(tenant, connector) of the sources to look at, those that have waited longest first."""
    statement = (
        select(CaptureSource.tenant, CaptureSource.connector_id)
        .where(CaptureSource.next_look <= now)
        .order_by(CaptureSource.next_look)
        .limit(limit)
    )
    why = "the process looks after every tenant's sources"
    return [(row.tenant, row.connector_id) for row in await session.execute(across_tenants(statement, why))]


async def try_lock(session: AsyncSession, connector_id: str) -> bool:
    """Whether this transaction is the only one, in any process, that looks at the source; until its end."""
    return bool(await session.scalar(select(func.pg_try_advisory_xact_lock(func.hashtext(connector_id), 6))))


async def looked(
    session: AsyncSession,
    source: CaptureSource,
    *,
    settled: bool,
    problem: str | None,
    attempts: int,
    pause: timedelta,
) -> None:
    """Write what came of a look, unless what is wanted has changed meanwhile: then it is looked at again at once."""
    values = {"problem": problem, "attempts": attempts, "next_look": func.now() + pause}
    if settled:
        values["settled"] = source.revision
    await session.execute(
        tenant_scope(update(CaptureSource), CaptureSource, source.tenant)
        .where(CaptureSource.connector_id == source.connector_id, CaptureSource.revision == source.revision)
        .values(**values)
        .execution_options(synchronize_session=False)
    )


async def remove(session: AsyncSession, source: CaptureSource) -> None:
    await session.execute(
        tenant_scope(delete(CaptureSource), CaptureSource, source.tenant)
        .where(CaptureSource.connector_id == source.connector_id)
        .execution_options(synchronize_session=False)
    )
