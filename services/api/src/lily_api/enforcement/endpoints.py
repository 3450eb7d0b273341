"""`/v1/opa/trino/…`: the questions of Trino's OPA plugin, answered for the tenant whose key asks."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field

from lily_api.auth.permissions import declare, require
from lily_api.auth.principal import Principal, Scope
from lily_api.bodies import read_body
from lily_api.enforcement import service
from lily_api.enforcement.opa import Enforcer
from lily_api.services import Services, ServicesDep
from lily_common.errors import ForbiddenError

router = APIRouter(prefix="/v1/opa/trino", tags=["enforcement"])

_EXAMPLE: dict[str, Any] = {
    "input": {
        "context": {
            "identity": {"user": "ann", "groups": ["analysts"]},
            "softwareStack": {"trinoVersion": "476"},
        },
        "action": {
            "operation": "SelectFromColumns",
            "resource": {
                "table": {
                    "catalogName": "lake",
                    "schemaName": "shop",
                    "tableName": "customers",
                    "columns": ["email"],
                }
            },
        },
    }
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["input"],
                    "properties": {
                        "input": {
                            "type": "object",
                            "required": ["context", "action"],
                            "properties": {"context": {"type": "object"}, "action": {"type": "object"}},
                        }
                    },
                },
                "example": _EXAMPLE,
            }
        },
    }
}


class Verdict(BaseModel):
    """OPA's form of a yes or no."""

    result: bool


class Expression(BaseModel):
    """A mask or a condition, as SQL of Trino."""

    expression: str = Field(examples=["NULL"])


class Allowed(BaseModel):
    result: list[int] = Field(description="Places of the resources that may be seen", examples=[[0, 2]])


class Filters(BaseModel):
    result: list[Expression]


class ColumnMask(BaseModel):
    result: dict[str, str] = Field(
        description="Empty: the column is shown", examples=[{"expression": "NULL"}]
    )


class IndexedMask(BaseModel):
    index: int
    viewExpression: Expression  # noqa: N815 - the plugin's name


class ColumnMasks(BaseModel):
    result: list[IndexedMask]


async def _enforcing(
    request: Request,
    key: Annotated[
        str | None,
        Query(max_length=8192, description="An API key: for engines that can be given a URI and no header"),
    ] = None,
) -> Principal:
    """Whoever asks by its header, or by a key in the URI."""
    if key is None:
        return await _by_header(request)
    services: Services = request.app.state.lily
    principal = await services.authenticator.authenticate({"authorization": f"Bearer {key}"})
    if not principal.allows(Scope.POLICIES_ENFORCE):
        raise ForbiddenError(f"this needs the scope {Scope.POLICIES_ENFORCE.value}", code="missing-scope")
    return principal


declare(_enforcing, Scope.POLICIES_ENFORCE)
_by_header = require("policies:enforce")
Enforcing = Annotated[Principal, Depends(_enforcing)]


async def _answer(
    services: Services,
    principal: Principal,
    request: Request,
    answer: service.Answer,
) -> Any:
    given = service.question(await read_body(request))
    enforcer = await service.enforcer(services, principal.tenant)
    try:
        return {"result": answer(enforcer, given)}
    except service.MALFORMED as wrong:
        raise service.malformed(wrong) from None


@router.post("/allow", summary="May it be done?", response_model=Verdict, openapi_extra=_BODY)
async def allow(principal: Enforcing, lily: ServicesDep, request: Request) -> Any:
    """`opa.policy.uri`."""
    return await _answer(lily, principal, request, Enforcer.allows)


@router.post("/batch", summary="Which of these may be seen?", response_model=Allowed, openapi_extra=_BODY)
async def batch(principal: Enforcing, lily: ServicesDep, request: Request) -> Any:
    """`opa.policy.batched-uri`."""
    return await _answer(lily, principal, request, Enforcer.allowed)


@router.post("/row-filters", summary="Which rows are shown?", response_model=Filters, openapi_extra=_BODY)
async def row_filters(principal: Enforcing, lily: ServicesDep, request: Request) -> Any:
    """`opa.policy.row-filters-uri`."""
    return await _answer(lily, principal, request, Enforcer.filters)


@router.post(
    "/column-mask", summary="How is the column shown?", response_model=ColumnMask, openapi_extra=_BODY
)
async def column_mask(principal: Enforcing, lily: ServicesDep, request: Request) -> Any:
    """`opa.policy.column-masking-uri`."""
    return await _answer(lily, principal, request, Enforcer.mask)


@router.post(
    "/column-masks", summary="How are these columns shown?", response_model=ColumnMasks, openapi_extra=_BODY
)
async def column_masks(principal: Enforcing, lily: ServicesDep, request: Request) -> Any:
    """`opa.policy.batch-column-masking-uri`."""
    return await _answer(lily, principal, request, Enforcer.masks)
