"""Queries on commands."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import exists, func, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.commands.models import Command
from lily_common.db import tenant_scope
from lily_common.tenancy import across_tenants

OPEN = ("accepted", "queued", "running")


async def get(session: AsyncSession, tenant: str, command_id: str) -> Command | None:
    statement = tenant_scope(select(Command), Command, tenant).where(Command.id == command_id)
    return (await session.scalars(statement)).one_or_none()


async def list_page(
    session: AsyncSession, tenant: str, after: tuple[datetime, str] | None, limit: int
) -> list[Command]:
    """Newest first, older than `after` (creation time, id)."""
    statement = tenant_scope(select(Command), Command, tenant)
    if after is not None:
        statement = statement.where(tuple_(Command.created_at, Command.id) < after)
    return list(
        await session.scalars(statement.order_by(Command.created_at.desc(), Command.id.desc()).limit(limit))
    )


async def is_open(
    session: AsyncSession, tenant: str, command: str, args: dict[str, Any], since: datetime
) -> bool:
    """Whether the tenant has this command with these arguments, made after `since`, that has not ended."""
    found = tenant_scope(select(Command.id), Command, tenant).where(
        Command.command == command,
        Command.args == args,
        Command.status.in_(OPEN),
        Command.created_at > since,
    )
    return bool(await session.scalar(select(exists(found))))


async def count_open(session: AsyncSession, tenant: str, command: str) -> int:
    """How many such commands of the tenant have not ended."""
    found = tenant_scope(select(func.count(Command.id)), Command, tenant).where(
        Command.command == command, Command.status.in_(OPEN)
    )
    return int(await session.scalar(found) or 0)


async def advance(session: AsyncSession, tenant: str, command_id: str, status: str, detail: Any) -> bool:
    """Set the status unless the command has ended; a message that comes again changes nothing.

    What is cancelled may be told once more how far it came.
    """
    allowed = ("accepted",) if status == "queued" else (*OPEN, "cancelled") if status == "cancelled" else OPEN
    statement = tenant_scope(update(Command), Command, tenant).where(
        Command.id == command_id, Command.status.in_(allowed)
    )
    result = await session.execute(statement.values(status=status, detail=detail))
    return bool(getattr(result, "rowcount", 0))


async def unpublished(session: AsyncSession, before: datetime, limit: int) -> list[Command]:
    """Commands of all tenants that were accepted before that time and may not have reached Kafka."""
    statement = (
        select(Command)
        .where(Command.status == "accepted", Command.created_at < before)
        .order_by(Command.created_at)
        .limit(limit)
    )
    why = "the process publishes what it or another left unpublished, whoever's it is"
    return list(await session.scalars(across_tenants(statement, why)))
