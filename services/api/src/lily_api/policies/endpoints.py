"""`/v1/policies`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response

from lily_api import paging
from lily_api.auth.permissions import PoliciesEnforce, PoliciesRead, PoliciesWrite
from lily_api.declarations import declaring, service
from lily_api.declarations.kinds import POLICY
from lily_api.declarations.models import Declaration
from lily_api.declarations.paging import page
from lily_api.declarations.parsing import declared_body
from lily_api.policies import deciding
from lily_api.policies.bundle import Bundles
from lily_api.policies.schemas import (
    EXAMPLE,
    EXAMPLE_YAML,
    DecideRequest,
    DecisionView,
    PolicyName,
    PolicyView,
)
from lily_api.schemas import Page
from lily_api.services import ServicesDep
from lily_common.errors import FieldError, InvalidInputError
from lily_common.policies import model

router = APIRouter(prefix="/v1/policies", tags=["policies"])
#: What stands beside the policies under the same address.
_TAKEN = frozenset({"bundle", "decide"})


@router.post("/decide", summary="See what someone may see")
async def decide(principal: PoliciesRead, lily: ServicesDep, wanted: DecideRequest) -> DecisionView:
    """The decision of the tenant's policies, and why: the same that every point of enforcement comes to."""
    return await deciding.decide(lily, principal.tenant, wanted)


@router.get(
    "/bundle",
    summary="Get all that enforcement needs as a file",
    response_class=Response,
    responses={
        200: {
            "content": {"application/gzip": {"schema": {"type": "string", "format": "binary"}}},
            "headers": {"ETag": {"schema": {"type": "string"}, "description": "Names the content"}},
        },
        304: {"description": "It is what `If-None-Match` names"},
    },
)
async def bundle(
    principal: PoliciesEnforce,
    lily: ServicesDep,
    if_none_match: Annotated[str | None, Header(max_length=1000)] = None,
) -> Response:
    """An Open Policy Agent bundle: `data.lily.policies`, `.mappings`, and `.tags` by qualified name.

    For tools that pull; the tags are those of the lake, a few seconds old.
    """
    made = await lily.get(Bundles).of(lily, principal.tenant)
    headers = {"ETag": f'"{made.revision}"', "Cache-Control": "private, no-cache"}
    named = [one.strip().removeprefix("W/") for one in (if_none_match or "").split(",")]
    if headers["ETag"] in named or "*" in named:
        return Response(status_code=304, headers=headers)
    return Response(made.content, media_type="application/gzip", headers=headers)


@router.put(
    "/{policy}",
    summary="Declare a policy",
    responses={201: {"model": PolicyView, "description": "Declared for the first time"}},
    openapi_extra={"requestBody": declared_body("Policy", EXAMPLE, EXAMPLE_YAML)},
)
async def put_policy(
    principal: PoliciesWrite, lily: ServicesDep, policy: PolicyName, request: Request, response: Response
) -> PolicyView:
    """Every change is a version of its own, and is kept in the audit log."""
    declared = await declaring.given(request, policy, _read)
    return _view(await declaring.keep(lily, principal, POLICY, policy, declared, response))


@router.get("", summary="List policies")
async def list_policies(
    principal: PoliciesRead, lily: ServicesDep, limit: paging.Limit = 100, cursor: paging.Cursor = None
) -> Page[PolicyView]:
    """By name."""
    return await page(lily, principal.tenant, POLICY, limit, cursor, _view)


@router.get("/{policy}", summary="Read a policy")
async def get_policy(principal: PoliciesRead, lily: ServicesDep, policy: PolicyName) -> PolicyView:
    return _view(await service.get(lily, principal.tenant, POLICY, policy))


@router.delete("/{policy}", status_code=204, summary="Delete a policy")
async def delete_policy(principal: PoliciesWrite, lily: ServicesDep, policy: PolicyName) -> None:
    await service.delete(lily, principal, POLICY, policy)


def _read(given: dict[str, Any]) -> model.Policy:
    if given["name"] in _TAKEN:
        message = f"{given['name']} is taken: choose another name"
        raise InvalidInputError(message, [FieldError("path.policy", message)])
    return model.read(given)


def _view(row: Declaration) -> PolicyView:
    return PolicyView(
        name=row.name,
        version=row.version,
        policy=model.read(row.body),
        created_by=row.created_by,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
