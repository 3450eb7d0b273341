"""Queries on declarations and refreshes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, exists, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.tables.models import GoldTable, TableRefresh
from lily_common.db import tenant_scope
from lily_common.gold.builtin import EVERYONE, builtin
from lily_common.tenancy import across_tenants

ACTIVE, DELETED = "active", "deleted"


async def get(session: AsyncSession, tenant: str, name: str, *, lock: bool = False) -> GoldTable | None:
    """The declaration, deleted ones that Kafka has not heard of included."""
    statement = tenant_scope(select(GoldTable), GoldTable, tenant).where(GoldTable.name == name)
    return (await session.scalars(statement.with_for_update() if lock else statement)).one_or_none()


async def exists_active(session: AsyncSession, tenant: str, name: str) -> bool:
    found = tenant_scope(select(GoldTable.name), GoldTable, tenant)
    found = found.where(GoldTable.name == name, GoldTable.status == ACTIVE)
    return bool(await session.scalar(select(exists(found))))


async def known(session: AsyncSession, tenant: str, name: str) -> bool:
    """Whether the tenant has a table of this name, declared or built in."""
    return name in builtin() or await exists_active(session, tenant, name)


async def list_after(session: AsyncSession, tenant: str, after: str, limit: int) -> list[GoldTable]:
    """By name."""
    statement = tenant_scope(select(GoldTable), GoldTable, tenant)
    statement = statement.where(GoldTable.name > after, GoldTable.status == ACTIVE)
    return list(await session.scalars(statement.order_by(GoldTable.name).limit(limit)))


async def count(session: AsyncSession, tenant: str) -> int:
    statement = tenant_scope(select(func.count()).select_from(GoldTable), GoldTable, tenant)
    return int(await session.scalar(statement.where(GoldTable.status == ACTIVE)) or 0)


async def remove(session: AsyncSession, tenant: str, name: str) -> None:
    statement = tenant_scope(delete(GoldTable), GoldTable, tenant).where(GoldTable.name == name)
    await session.execute(statement)


async def unpublished(session: AsyncSession, before: datetime, limit: int) -> list[tuple[str, str]]:
    """(tenant, name) of what changed before that time and Kafka may not have."""
    statement = (
        select(GoldTable.tenant, GoldTable.name)
        .where(~GoldTable.published, GoldTable.updated_at < before)
        .order_by(GoldTable.updated_at)
        .limit(limit)
    )
    why = "the process publishes what it or another left unpublished, whoever's it is"
    return [(row.tenant, row.name) for row in await session.execute(across_tenants(statement, why))]


async def every(session: AsyncSession, after: tuple[str, str], limit: int) -> list[tuple[str, str]]:
    """(tenant, name) of all declarations, in order."""
    statement = (
        select(GoldTable.tenant, GoldTable.name)
        .where((GoldTable.tenant > after[0]) | ((GoldTable.tenant == after[0]) & (GoldTable.name > after[1])))
        .order_by(GoldTable.tenant, GoldTable.name)
        .limit(limit)
    )
    why = "at its start the process brings the topic in line with the database, whoever's a table is"
    return [(row.tenant, row.name) for row in await session.execute(across_tenants(statement, why))]


async def refreshes(session: AsyncSession, tenant: str, names: Sequence[str]) -> dict[str, TableRefresh]:
    """The last refresh by table, of the tenant's own and of the built-in tables."""
    found: dict[str, TableRefresh] = {}
    for owner in (EVERYONE, tenant):
        statement = tenant_scope(select(TableRefresh), TableRefresh, owner)
        rows = await session.scalars(statement.where(TableRefresh.table.in_(names)))
        found |= {row.table: row for row in rows}
    return found


async def keep_refresh(
    session: AsyncSession, tenant: str, table: str, status: str, at: datetime, detail: dict[str, Any]
) -> None:
    """The newest refresh of a table is kept; one that comes again or late changes nothing."""
    values = {"status": status, "at": at, "detail": detail}
    statement = insert(TableRefresh).values(tenant=tenant, table=table, **values)
    await session.execute(
        statement.on_conflict_do_update(
            index_elements=[TableRefresh.tenant, TableRefresh.table],
            set_=values,
            where=TableRefresh.at < at,
        )
    )


async def forget_refresh(session: AsyncSession, tenant: str, table: str) -> None:
    statement = tenant_scope(delete(TableRefresh), TableRefresh, tenant).where(TableRefresh.table == table)
    await session.execute(statement)
