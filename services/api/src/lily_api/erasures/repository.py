"""Queries on erasures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import exists, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.erasures.models import ACCEPTED, COMPLETED, FAILED, RUNNING, Erasure
from lily_common.db import tenant_scope
from lily_common.tenancy import across_tenants

_WHY = "the process carries on with erasures, whoever's they are"


async def get(session: AsyncSession, tenant: str, erasure_id: str, *, lock: bool = False) -> Erasure | None:
    statement = tenant_scope(select(Erasure), Erasure, tenant).where(Erasure.id == erasure_id)
    return (await session.scalars(statement.with_for_update() if lock else statement)).one_or_none()


async def list_page(
    session: AsyncSession, tenant: str, after: tuple[datetime, str] | None, limit: int
) -> list[Erasure]:
    """Newest first, older than `after` (creation time, id)."""
    statement = tenant_scope(select(Erasure), Erasure, tenant)
    if after is not None:
        statement = statement.where(tuple_(Erasure.created_at, Erasure.id) < after)
    ordered = statement.order_by(Erasure.created_at.desc(), Erasure.id.desc())
    return list(await session.scalars(ordered.limit(limit)))


async def is_open(session: AsyncSession, tenant: str, digest: str) -> bool:
    found = tenant_scope(select(Erasure.id), Erasure, tenant).where(
        Erasure.digest == digest, Erasure.status.in_((ACCEPTED, RUNNING))
    )
    return bool(await session.scalar(select(exists(found))))


async def unfinished(session: AsyncSession) -> list[tuple[str, str]]:
    """(tenant, id) of every erasure that has something left to be done or to be said."""
    statement = select(Erasure.tenant, Erasure.id).where(
        Erasure.status.not_in((COMPLETED, FAILED)) | ~Erasure.published
    )
    rows = await session.execute(across_tenants(statement.order_by(Erasure.id), _WHY))
    return [(tenant, erasure_id) for tenant, erasure_id in rows]


async def stamp(session: AsyncSession) -> tuple[int, datetime | None]:
    """Changes whenever the stop-list does."""
    statement = select(func.count(), func.max(Erasure.created_at)).select_from(Erasure)
    row = (await session.execute(across_tenants(statement, _WHY))).one()
    return row[0], row[1]


async def everything(session: AsyncSession) -> Sequence[Erasure]:
    """All that was ever erased: the stop-list."""
    statement = select(Erasure).where(Erasure.status != FAILED)
    return (await session.scalars(across_tenants(statement, _WHY))).all()
