"""`/v1/tenants`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from lily_api import paging
from lily_api.auth.permissions import Operator, TenantAdmin
from lily_api.schemas import TENANT_PATTERN, Page
from lily_api.services import ServicesDep
from lily_api.tenants import service
from lily_api.tenants.schemas import TenantCreate, TenantPatch, TenantView

router = APIRouter(prefix="/v1/tenants", tags=["tenants"])
TenantPath = Annotated[str, Path(pattern=TENANT_PATTERN, examples=["acme"])]


@router.post("", status_code=201, summary="Create a tenant")
async def create_tenant(principal: Operator, lily: ServicesDep, body: TenantCreate) -> TenantView:
    """For the operator. The answer comes when the mirror policy is acknowledged by Kafka."""
    return TenantView.model_validate(await service.create(lily, principal, body))


@router.get("", summary="List tenants")
async def list_tenants(
    _principal: Operator, lily: ServicesDep, limit: paging.Limit = 100, cursor: paging.Cursor = None
) -> Page[TenantView]:
    """For the operator; ordered by id."""
    after = paging.decode(cursor, str)
    rows = await service.list_page(lily, after[0] if after else "", limit)
    return Page[TenantView](
        items=[TenantView.model_validate(row) for row in rows],
        next_cursor=paging.encode(rows[-1].id) if len(rows) == limit else None,
    )


@router.get("/{tenant}", summary="Read a tenant")
async def get_tenant(principal: TenantAdmin, lily: ServicesDep, tenant: TenantPath) -> TenantView:
    """For the operator, and for an administrator of this tenant."""
    return TenantView.model_validate(await service.get(lily, principal, tenant))


@router.patch("/{tenant}", summary="Change a tenant")
async def patch_tenant(
    principal: TenantAdmin, lily: ServicesDep, tenant: TenantPath, body: TenantPatch
) -> TenantView:
    """Overlays what is given. A change of `sensitive_fields` is answered when Kafka has acknowledged it."""
    return TenantView.model_validate(await service.patch(lily, principal, tenant, body))
