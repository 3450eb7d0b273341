"""`/v1/mappings`: which assets an engine's tables are."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from lily_api import paging
from lily_api.auth.permissions import PoliciesRead, PoliciesWrite
from lily_api.declarations import declaring, service
from lily_api.declarations.kinds import MAPPING
from lily_api.declarations.models import Declaration
from lily_api.declarations.paging import page
from lily_api.declarations.parsing import declared_body
from lily_api.schemas import Output, Page
from lily_api.services import ServicesDep
from lily_common.policies import mapping as model
from lily_common.policies.mapping import Mapping
from lily_common.policies.model import NAME_PATTERN

router = APIRouter(prefix="/v1/mappings", tags=["enforcement"])
MappingName = Annotated[str, Path(pattern=NAME_PATTERN, description="The mapping's name")]
EXAMPLE: dict[str, Any] = {
    "table": "lake.cdc_shop.{schema}_{table}",
    "asset": "postgres://shop-db:5432/shop/{schema}/{table}",
}
EXAMPLE_YAML = """\
table: lake.cdc_shop.{schema}_{table}
asset: postgres://shop-db:5432/shop/{schema}/{table}
"""


class MappingView(Output):
    name: str = Field(examples=["shop"])
    version: int = Field(examples=[1])
    mapping: Mapping = Field(examples=[EXAMPLE | {"name": "shop"}])
    created_by: str
    created_at: datetime
    updated_at: datetime


@router.put(
    "/{mapping}",
    summary="Declare a mapping",
    responses={201: {"model": MappingView, "description": "Declared for the first time"}},
    openapi_extra={"requestBody": declared_body("Mapping", EXAMPLE, EXAMPLE_YAML)},
)
async def put_mapping(
    principal: PoliciesWrite, lily: ServicesDep, mapping: MappingName, request: Request, response: Response
) -> MappingView:
    """From then on the engine's tables are those assets, and obey what is said of them."""
    declared = await declaring.given(request, mapping, model.read)
    return _view(await declaring.keep(lily, principal, MAPPING, mapping, declared, response))


@router.get("", summary="List mappings")
async def list_mappings(
    principal: PoliciesRead, lily: ServicesDep, limit: paging.Limit = 100, cursor: paging.Cursor = None
) -> Page[MappingView]:
    """By name."""
    return await page(lily, principal.tenant, MAPPING, limit, cursor, _view)


@router.get("/{mapping}", summary="Read a mapping")
async def get_mapping(principal: PoliciesRead, lily: ServicesDep, mapping: MappingName) -> MappingView:
    return _view(await service.get(lily, principal.tenant, MAPPING, mapping))


@router.delete("/{mapping}", status_code=204, summary="Delete a mapping")
async def delete_mapping(principal: PoliciesWrite, lily: ServicesDep, mapping: MappingName) -> None:
    """The engine's tables are then none of Lily's: nothing about them is refused or masked."""
    await service.delete(lily, principal, MAPPING, mapping)


def _view(row: Declaration) -> MappingView:
    return MappingView(
        name=row.name,
        version=row.version,
        mapping=model.read(row.body),
        created_by=row.created_by,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
