"""Scopes as types: an endpoint states what it needs in its signature, e.g. `principal: EventsWrite`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from lily_api.auth.principal import Principal, Scope
from lily_api.services import Services
from lily_common.errors import ForbiddenError, InvalidInputError


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a route asks of its caller; the OpenAPI document is made from it."""

    scope: Scope | None
    needs_tenant: bool


_REQUIREMENTS: dict[Callable[..., Any], Requirement] = {}


def requirement_of(dependency: Callable[..., Any] | None) -> Requirement | None:
    """The requirement behind a dependency made by `require`, else None."""
    return _REQUIREMENTS.get(dependency) if dependency is not None else None


def declare(dependency: Callable[..., Any], scope: Scope) -> None:
    """Say what a dependency of another make asks for: a tenant's caller with `scope`."""
    _REQUIREMENTS[dependency] = Requirement(scope, needs_tenant=True)


def require(scope: str | None, *, needs_tenant: bool = True) -> Callable[[Request], Awaitable[Principal]]:
    """A dependency that answers 401 without a valid credential and 403 without `scope` (None: whoever is known).

    With `needs_tenant` the operator has to say for which tenant it acts (`X-Lily-Tenant`), so that the principal's
    tenant is never empty.
    """
    wanted = Scope(scope) if scope is not None else None

    async def permitted(request: Request) -> Principal:
        services: Services = request.app.state.lily
        principal = await services.authenticator.authenticate(request.headers)
        if wanted is not None and not principal.allows(wanted):
            raise ForbiddenError(f"this needs the scope {wanted.value}", code="missing-scope")
        if needs_tenant and not principal.tenant:
            raise InvalidInputError(
                "the operator acts for a tenant: name it in the header X-Lily-Tenant", code="tenant-missing"
            )
        return principal

    _REQUIREMENTS[permitted] = Requirement(wanted, needs_tenant)
    return permitted


EventsWrite = Annotated[Principal, Depends(require("events:write"))]
AssetsRead = Annotated[Principal, Depends(require("assets:read"))]
ConnectorsRead = Annotated[Principal, Depends(require("connectors:read"))]
ConnectorsWrite = Annotated[Principal, Depends(require("connectors:write"))]
SubscriptionsRead = Annotated[Principal, Depends(require("subscriptions:read"))]
SubscriptionsWrite = Annotated[Principal, Depends(require("subscriptions:write"))]
DeliveriesRead = Annotated[Principal, Depends(require("deliveries:read"))]
DeliveriesWrite = Annotated[Principal, Depends(require("deliveries:write"))]
KeysRead = Annotated[Principal, Depends(require("keys:read"))]
KeysWrite = Annotated[Principal, Depends(require("keys:write"))]
AuditRead = Annotated[Principal, Depends(require("audit:read"))]
CommandsRead = Annotated[Principal, Depends(require("commands:read"))]
CommandsWrite = Annotated[Principal, Depends(require("commands:write"))]
TablesRead = Annotated[Principal, Depends(require("tables:read"))]
TablesWrite = Annotated[Principal, Depends(require("tables:write"))]
PropagationRead = Annotated[Principal, Depends(require("propagation:read"))]
PropagationWrite = Annotated[Principal, Depends(require("propagation:write"))]
PoliciesRead = Annotated[Principal, Depends(require("policies:read"))]
PoliciesEnforce = Annotated[Principal, Depends(require("policies:enforce"))]
PoliciesWrite = Annotated[Principal, Depends(require("policies:write"))]
ErasuresRead = Annotated[Principal, Depends(require("erasures:read"))]
ErasuresWrite = Annotated[Principal, Depends(require("erasures:write"))]
StreamRead = Annotated[Principal, Depends(require("stream:read"))]
Known = Annotated[Principal, Depends(require(None, needs_tenant=False))]
TenantAdmin = Annotated[Principal, Depends(require("admin", needs_tenant=False))]
Operator = Annotated[Principal, Depends(require("tenants:write", needs_tenant=False))]
