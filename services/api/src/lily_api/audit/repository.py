"""Queries on the audit log."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.audit.models import AuditEntry
from lily_common.db import tenant_scope

_CHUNK = 1000


async def lock_chain(session: AsyncSession, tenant: str) -> None:
    """Until the transaction ends nobody else appends to this tenant's chain."""
    await session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"audit:{tenant}", 0))))


async def last(session: AsyncSession, tenant: str) -> AuditEntry | None:
    statement = tenant_scope(select(AuditEntry), AuditEntry, tenant).order_by(AuditEntry.seq.desc()).limit(1)
    return (await session.scalars(statement)).one_or_none()


async def page(
    session: AsyncSession,
    tenant: str,
    *,
    before: int | None,
    limit: int,
    action: str | None = None,
    actor: str | None = None,
    target: str | None = None,
) -> list[AuditEntry]:
    """Newest first, older than `before` (a `seq`)."""
    statement = tenant_scope(select(AuditEntry), AuditEntry, tenant)
    if before is not None:
        statement = statement.where(AuditEntry.seq < before)
    if action is not None:
        statement = statement.where(AuditEntry.action == action)
    if actor is not None:
        statement = statement.where(AuditEntry.actor == actor)
    if target is not None:
        statement = statement.where(AuditEntry.target == target)
    return list(await session.scalars(statement.order_by(AuditEntry.seq.desc()).limit(limit)))


async def walk(session: AsyncSession, tenant: str) -> AsyncIterator[list[AuditEntry]]:
    """The whole chain from its first row, in chunks, in one statement's snapshot."""
    statement = tenant_scope(select(AuditEntry), AuditEntry, tenant).order_by(AuditEntry.seq)
    result = await session.stream_scalars(statement.execution_options(yield_per=_CHUNK))
    async for rows in result.partitions():
        yield list(rows)
