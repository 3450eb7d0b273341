"""`/v1/enrichment/rules`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from lily_api import paging
from lily_api.auth.permissions import PropagationRead, PropagationWrite
from lily_api.declarations import declaring, service
from lily_api.declarations.kinds import ENRICHMENT_RULE
from lily_api.declarations.models import Declaration
from lily_api.declarations.paging import page
from lily_api.declarations.parsing import declared_body
from lily_api.schemas import Output, Page
from lily_api.services import ServicesDep
from lily_common.enrichment.rules import NAME_PATTERN, EnrichmentRule, read

router = APIRouter(prefix="/v1/enrichment/rules", tags=["enrichment"])
RuleName = Annotated[str, Path(pattern=NAME_PATTERN, description="The rule's name")]
EXAMPLE: dict[str, Any] = {
    "description": "Columns that hold e-mail addresses",
    "when": {"names": ["*email*", "*e_mail*"], "asset_types": ["column"]},
    "tags": ["PII"],
}
EXAMPLE_YAML = """\
description: Columns that hold e-mail addresses
when:
  asset_types: [column]
  values: {regex: '[^@ ]+@[^@ ]+[.][a-z]+', share: 0.9}
tags: [PII]
action: suggest
"""


class EnrichmentRuleView(Output):
    name: str = Field(examples=["emails"])
    version: int = Field(examples=[1])
    rule: EnrichmentRule = Field(examples=[EXAMPLE | {"name": "emails"}])
    created_by: str
    created_at: datetime
    updated_at: datetime


@router.put(
    "/{rule}",
    summary="Declare an enrichment rule",
    responses={201: {"model": EnrichmentRuleView, "description": "Declared for the first time"}},
    openapi_extra={"requestBody": declared_body("EnrichmentRule", EXAMPLE, EXAMPLE_YAML)},
)
async def put_enrichment_rule(
    principal: PropagationWrite, lily: ServicesDep, rule: RuleName, request: Request, response: Response
) -> EnrichmentRuleView:
    """Carried out by the lake job within seconds; what the rule gave before and gives no longer is taken back."""
    declared = await declaring.given(request, rule, read)
    return _view(await declaring.keep(lily, principal, ENRICHMENT_RULE, rule, declared, response))


@router.get("", summary="List enrichment rules")
async def list_enrichment_rules(
    principal: PropagationRead, lily: ServicesDep, limit: paging.Limit = 100, cursor: paging.Cursor = None
) -> Page[EnrichmentRuleView]:
    """By name."""
    return await page(lily, principal.tenant, ENRICHMENT_RULE, limit, cursor, _view)


@router.get("/{rule}", summary="Read an enrichment rule")
async def get_enrichment_rule(
    principal: PropagationRead, lily: ServicesDep, rule: RuleName
) -> EnrichmentRuleView:
    return _view(await service.get(lily, principal.tenant, ENRICHMENT_RULE, rule))


@router.delete("/{rule}", status_code=204, summary="Delete an enrichment rule")
async def delete_enrichment_rule(principal: PropagationWrite, lily: ServicesDep, rule: RuleName) -> None:
    """Everything that it gave is taken back."""
    await service.delete(lily, principal, ENRICHMENT_RULE, rule)


def _view(row: Declaration) -> EnrichmentRuleView:
    return EnrichmentRuleView(
        name=row.name,
        version=row.version,
        rule=read(row.body),
        created_by=row.created_by,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
