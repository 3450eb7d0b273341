"""The OpenAPI document: FastAPI's own, completed with what every route shares.

Security and the tenant header follow from each route's `require(...)`; problem responses from its parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from lily_api import problems
from lily_api.auth.permissions import Requirement, requirement_of
from lily_api.auth.principal import GRANTABLE
from lily_api.schemas import TENANT_PATTERN, Problem

_DESCRIPTION = """
Lily moves metadata changes between data tools: events come in by CloudEvents, OpenLineage or signed webhooks, and go
out to subscribers within a second, in order, with nothing lost.

**Credentials.** An API key or an access token as `Authorization: Bearer …` (a key also as `X-API-Key`). A credential
belongs to one tenant. Identifiers of another tenant are answered like unknown ones, with 404.

**Errors** are problem details (RFC 9457, `application/problem+json`). 503 carries `Retry-After`: the request was not
carried out, or not in full, and may be sent again.
"""
_TAGS = [
    {"name": "health", "description": "Probes and metrics"},
    {"name": "oauth", "description": "Tokens by client credentials, and the clients themselves"},
    {"name": "tenants", "description": "Tenants and their mirror policy"},
    {"name": "keys", "description": "API keys"},
    {"name": "audit", "description": "The hash-chained log of every write"},
    {"name": "connectors", "description": "What the tenant has connected, and the kinds there are"},
    {"name": "events", "description": "CloudEvents in, one or many at a time"},
    {"name": "webhooks", "description": "Vendors' signed calls"},
    {"name": "openlineage", "description": "OpenLineage's own API, for its clients unmodified"},
    {"name": "subscriptions", "description": "What the tenant wants to hear, and where it is sent"},
    {"name": "deliveries", "description": "What was sent, every attempt, and sending again"},
    {"name": "assets", "description": "Assets as they are and as they were, their incidents and history"},
    {"name": "lineage", "description": "What an asset is made of, and what is made of it"},
    {"name": "stream", "description": "Changes as server-sent events"},
    {"name": "commands", "description": "What the lake job is asked to do, and how it went"},
    {"name": "erasures", "description": "Erasing for good: assets, persons, tenants; with a signed report"},
    {"name": "tables", "description": "Incremental tables: analytics refreshed by what has changed"},
    {
        "name": "policies",
        "description": "What tags mean for those who read: deny, mask, filter, allow, notify",
    },
    {
        "name": "propagation",
        "description": "Rules by which tags and properties travel down lineage and hierarchy",
    },
]
_SECURITY = {
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key"},
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, or a JWT of the token endpoint",
    },
    "clientCredentials": {
        "type": "oauth2",
        "flows": {
            "clientCredentials": {
                "tokenUrl": "/oauth2/token",
                "scopes": {scope.value: f"Scope {scope.value}" for scope in sorted(GRANTABLE)},
            }
        },
    },
    "clientBasic": {"type": "http", "scheme": "basic", "description": "client_id and client_secret"},
}
_TENANT_HEADER = {
    "name": "X-Lily-Tenant",
    "in": "header",
    "required": False,
    "description": "For the operator: the tenant to act for",
    "schema": {"type": "string", "pattern": TENANT_PATTERN},
    "example": "acme",
}
_REASONS = {
    400: ("malformed-body", "Malformed request", "The request cannot be read"),
    401: ("unauthenticated", "Not authenticated", "No credential, or one that is wrong, expired or revoked"),
    403: ("missing-scope", "Forbidden", "The credential lacks the scope"),
    404: ("not-found", "Not found", "There is no such thing in this tenant"),
    409: ("conflict", "Conflict", "It conflicts with what exists"),
    413: ("payload-too-large", "Payload too large", "The body is too large"),
    415: ("unsupported-media-type", "Unsupported media type", "The body's type or encoding is not accepted"),
    422: ("invalid-input", "Invalid input", "A field is wrong; `errors` names it"),
    503: ("unavailable", "Service unavailable", "Try again after `Retry-After` seconds"),
}
_METHODS = frozenset({"get", "put", "post", "delete", "patch", "head", "options"})


def install(app: FastAPI, routers: list[APIRouter]) -> None:
    """Make `app.openapi()` (and /openapi.json, /docs) give the completed document."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = build(app, routers)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def build(app: FastAPI, routers: list[APIRouter]) -> dict[str, Any]:
    schema = get_openapi(
        title=app.title,
        version=app.version,
        summary="The metadata-event platform",
        description=_DESCRIPTION.strip(),
        routes=app.routes,
        tags=_TAGS,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    components = schema.setdefault("components", {})
    components.setdefault("securitySchemes", {}).update(_SECURITY)
    schemas = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs", {}))
    schemas["Problem"] = problem
    requirements = dict(_requirements(routers))
    for path, item in schema["paths"].items():
        for method, operation in item.items():
            if method in _METHODS:
                _complete(operation, requirements.get((path, method)))
    return schema


def _requirements(routers: list[APIRouter]) -> Iterator[tuple[tuple[str, str], Requirement]]:
    for router in routers:
        for route in router.routes:
            if not isinstance(route, APIRoute):
                continue
            found = _requirement(route.dependant)
            for method in route.methods or ():
                if found is not None:
                    yield (route.path_format, method.lower()), found


def _requirement(dependant: Dependant) -> Requirement | None:
    for dependency in dependant.dependencies:
        found = requirement_of(dependency.call) or _requirement(dependency)
        if found is not None:
            return found
    return None


def _complete(operation: dict[str, Any], requirement: Requirement | None) -> None:
    responses = operation.setdefault("responses", {})
    parameters = operation.get("parameters", [])
    statuses = [503]
    if parameters or "requestBody" in operation:
        statuses += [400, 422]
    if "requestBody" in operation:
        statuses += [413, 415]
    if any(parameter["in"] == "path" for parameter in parameters):
        statuses += [404]
    if requirement is not None:
        statuses += [401, 403, 404, 422]
        scopes = [requirement.scope.value] if requirement.scope is not None else []
        operation["security"] = [{"apiKey": []}, {"bearer": []}, {"clientCredentials": scopes}]
        needs = f"Needs the scope `{scopes[0]}`." if scopes else "Needs any valid credential."
        operation["description"] = f"{operation.get('description', '')}\n\n{needs}".strip()
        operation["x-lily-scope"] = scopes[0] if scopes else None
        if requirement.needs_tenant:
            operation["parameters"] = [*parameters, _TENANT_HEADER]
    if requirement is not None and "requestBody" in operation:
        statuses += [409]
    declared = responses.get("422", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if str(declared.get("$ref", "")).endswith("/HTTPValidationError"):
        del responses["422"]
    for status in sorted(set(statuses)):
        responses.setdefault(str(status), _problem_response(status))
    for status, response in responses.items():
        # A route may declare an answer of its own, or none; that of the common handlers remains possible.
        if int(status) in statuses or (int(status) >= 400 and "content" not in response):
            response["content"] = response.get("content", {}) | _problem_response(int(status))["content"]


def _problem_response(status: int) -> dict[str, Any]:
    code, title, description = _REASONS.get(status, ("error", "Error", "The request failed"))
    example = {"type": f"urn:lily:problem:{code}", "title": title, "status": status, "detail": description}
    response: dict[str, Any] = {
        "description": description,
        "content": {
            problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example}
        },
    }
    if status == 503:
        response["headers"] = {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}}
    return response
