"""`/v1/audit`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from lily_api import paging
from lily_api.audit import repository, service
from lily_api.audit.schemas import AuditCheck, AuditView
from lily_api.auth.permissions import AuditRead
from lily_api.schemas import Page, Text
from lily_api.services import ServicesDep

router = APIRouter(prefix="/v1/audit", tags=["audit"])
Filter = Annotated[Text | None, Query(max_length=2200)]


@router.get("", summary="Read the audit log")
async def list_audit(
    principal: AuditRead,
    lily: ServicesDep,
    *,
    limit: paging.Limit = 100,
    cursor: paging.Cursor = None,
    action: Filter = None,
    actor: Filter = None,
    target: Filter = None,
) -> Page[AuditView]:
    """Every write in the tenant, newest first."""
    before = paging.decode(cursor, int)
    async with lily.db() as session:
        rows = await repository.page(
            session,
            principal.tenant,
            before=before[0] if before else None,
            limit=limit,
            action=action,
            actor=actor,
            target=target,
        )
    return Page[AuditView](
        items=[AuditView.model_validate(row) for row in rows],
        next_cursor=paging.encode(rows[-1].seq) if len(rows) == limit else None,
    )


@router.get("/verify", summary="Check the audit log's hash chain")
async def verify_audit(principal: AuditRead, lily: ServicesDep) -> AuditCheck:
    """Recomputes every hash of the tenant's chain."""
    async with lily.db() as session:
        check = await service.verify(session, principal.tenant)
    return AuditCheck(
        valid=check.broken_at is None,
        entries=check.entries,
        head_hash=check.head_hash,
        broken_at=check.broken_at,
    )
