"""`/v1/propagation`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from lily_api import paging
from lily_api.auth.permissions import PropagationRead, PropagationWrite
from lily_api.declarations import declaring, service
from lily_api.declarations.kinds import PROPAGATION_RULE
from lily_api.declarations.models import Declaration
from lily_api.declarations.paging import page
from lily_api.declarations.parsing import declared_body
from lily_api.propagation import previewing
from lily_api.propagation.schemas import EXAMPLE, EXAMPLE_YAML, Preview, PreviewRequest, RuleName, RuleView
from lily_api.schemas import Page
from lily_api.services import Services, ServicesDep
from lily_common.errors import ConflictError
from lily_common.propagation import rules
from lily_common.propagation.rules import Rule

router = APIRouter(prefix="/v1/propagation", tags=["propagation"])


@router.put(
    "/rules/{rule}",
    summary="Declare a propagation rule",
    responses={201: {"model": RuleView, "description": "Declared for the first time"}},
    openapi_extra={"requestBody": declared_body("Rule", EXAMPLE, EXAMPLE_YAML)},
)
async def put_rule(
    principal: PropagationWrite, lily: ServicesDep, rule: RuleName, request: Request, response: Response
) -> RuleView:
    """The lake job carries out what follows at once: what the rule causes now is told, what it caused no longer is
    taken back."""
    declared = await declaring.given(request, rule, rules.read)
    if declared.property is not None:
        await _only_carrier(lily, principal.tenant, declared)
    return _view(await declaring.keep(lily, principal, PROPAGATION_RULE, rule, declared, response))


@router.get("/rules", summary="List propagation rules")
async def list_rules(
    principal: PropagationRead, lily: ServicesDep, limit: paging.Limit = 100, cursor: paging.Cursor = None
) -> Page[RuleView]:
    """By name."""
    return await page(lily, principal.tenant, PROPAGATION_RULE, limit, cursor, _view)


@router.get("/rules/{rule}", summary="Read a propagation rule")
async def get_rule(principal: PropagationRead, lily: ServicesDep, rule: RuleName) -> RuleView:
    return _view(await service.get(lily, principal.tenant, PROPAGATION_RULE, rule))


@router.delete("/rules/{rule}", status_code=204, summary="Delete a propagation rule")
async def delete_rule(principal: PropagationWrite, lily: ServicesDep, rule: RuleName) -> None:
    """Everything that it caused is taken back."""
    await service.delete(lily, principal, PROPAGATION_RULE, rule)


@router.post("/preview", summary="See what a change would do")
async def preview(principal: PropagationRead, lily: ServicesDep, wanted: PreviewRequest) -> Preview:
    """What the rules would make of these changes, or a rule of the estate as it is, without anything being changed."""
    return Preview.model_validate(await previewing.preview(lily, principal, wanted))


async def _only_carrier(lily: Services, tenant: str, declared: Rule) -> None:
    """An asset inherits one value of a property: two rules would contend for it. Raises ConflictError."""
    for row in await service.list_page(lily, tenant, PROPAGATION_RULE, "", rules.MAX_RULES):
        if row.name != declared.name and row.body.get("property") == declared.property:
            raise ConflictError(f"the rule {row.name} carries {declared.property} already", "property-taken")


def _view(row: Declaration) -> RuleView:
    return RuleView(
        name=row.name,
        version=row.version,
        rule=rules.read(row.body),
        created_by=row.created_by,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
