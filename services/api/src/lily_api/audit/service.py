"""Writing and checking the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.audit import chain, repository
from lily_api.audit.models import AuditEntry
from lily_api.auth.principal import Principal
from lily_api.context import request_id


async def record(
    session: AsyncSession,
    principal: Principal,
    action: str,
    target: str,
    detail: Mapping[str, Any] | None = None,
    *,
    tenant: str | None = None,
    outcome: str = "ok",
) -> None:
    """Append one row to the tenant's chain, in the caller's transaction: both happen or neither.

    `action` is `<noun>.<verb>` (`key.create`), `target` `<noun>:<id>`; `detail` is JSON and must hold no secret.
    Call it last: the tenant's chain is locked from here to the commit.
    """
    owner = tenant or principal.tenant
    await repository.lock_chain(session, owner)
    previous = await repository.last(session, owner)
    entry = AuditEntry(
        tenant=owner,
        seq=previous.seq + 1 if previous else 1,
        at=datetime.now(UTC),
        actor=principal.subject,
        action=action,
        target=target,
        request_id=request_id.get(),
        outcome=outcome,
        detail=chain.plain(detail),
        previous_hash=previous.hash if previous else chain.GENESIS,
    )
    entry.hash = chain.link_hash(entry)
    session.add(entry)


async def verify(session: AsyncSession, tenant: str) -> chain.ChainCheck:
    """Recompute the tenant's whole chain."""
    check = chain.ChainCheck()
    async for rows in repository.walk(session, tenant):
        for row in rows:
            check.add(row)
        session.expunge_all()
    return check
