"""`/oauth2/token`, `/.well-known/…` and `/v1/clients`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from lily_api import paging
from lily_api.auth.permissions import KeysRead, KeysWrite
from lily_api.auth.principal import GRANTABLE
from lily_api.auth.tokens import ALGORITHM
from lily_api.bodies import read_body
from lily_api.oauth import service, token
from lily_api.oauth.models import OAuthClient
from lily_api.oauth.schemas import (
    ClientCreate,
    ClientCreated,
    ClientPatch,
    ClientView,
    KeySet,
    OAuthProblem,
    SecretRotate,
    TokenView,
)
from lily_api.schemas import ObjectId, Page
from lily_api.services import ServicesDep

router = APIRouter(tags=["oauth"])
_NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {
                    "type": "object",
                    "required": ["grant_type"],
                    "properties": {
                        "grant_type": {"type": "string", "enum": ["client_credentials"]},
                        "scope": {"type": "string", "description": "Space-separated; all when missing"},
                        "client_id": {"type": "string", "description": "Unless sent as Basic credentials"},
                        "client_secret": {
                            "type": "string",
                            "description": "Unless sent as Basic credentials",
                        },
                    },
                },
                "example": {"grant_type": "client_credentials", "scope": "assets:read"},
            }
        },
    },
    "security": [{"clientBasic": []}, {}],
}


@router.post(
    "/oauth2/token",
    summary="Get an access token",
    response_model=TokenView,
    responses={400: {"model": OAuthProblem}, 401: {"model": OAuthProblem}},
    openapi_extra=_FORM,
)
async def issue_token(request: Request, lily: ServicesDep) -> Response:
    """Client credentials (RFC 6749, 4.4), as HTTP Basic or in the form. The token is a JWT of at most 15 minutes."""
    headers = request.headers
    try:
        granted = await token.grant(
            lily, headers.get("authorization", ""), headers.get("content-type", ""), await read_body(request)
        )
    except token.TokenError as refused:
        content = {"error": refused.error, "error_description": refused.description}
        challenge = {"WWW-Authenticate": 'Basic realm="lily"'} if refused.status == 401 else {}
        return JSONResponse(content, refused.status, headers=_NO_STORE | challenge)
    return JSONResponse(granted.model_dump(), headers=_NO_STORE)


@router.get("/.well-known/jwks.json", summary="Public keys that verify tokens")
async def jwks(lily: ServicesDep, response: Response) -> KeySet:
    response.headers["Cache-Control"] = "public, max-age=300"
    return KeySet.model_validate(lily.signer.jwks())


@router.get("/.well-known/openid-configuration", summary="OpenID provider metadata")
@router.get("/.well-known/oauth-authorization-server", summary="OAuth 2 server metadata (RFC 8414)")
async def server_metadata(lily: ServicesDep) -> dict[str, Any]:
    settings = lily.settings
    base = settings.url.rstrip("/")
    return {
        "issuer": settings.jwt_issuer,
        "token_endpoint": f"{base}/oauth2/token",
        "jwks_uri": f"{base}/.well-known/jwks.json",
        "grant_types_supported": ["client_credentials"],
        "response_types_supported": [],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "scopes_supported": sorted(scope.value for scope in GRANTABLE),
        "claims_supported": ["iss", "aud", "sub", "iat", "exp", "jti", "tenant", "scope"],
    }


def _shown(client: OAuthClient, secret: str, response: Response) -> ClientCreated:
    response.headers["Cache-Control"] = "no-store"
    return ClientCreated(**ClientView.model_validate(client).model_dump(), client_secret=secret)


@router.post("/v1/clients", status_code=201, summary="Create an OAuth client")
async def create_client(
    principal: KeysWrite, lily: ServicesDep, body: ClientCreate, response: Response
) -> ClientCreated:
    """The secret is in this answer and nowhere else. It can carry only scopes that its creator has."""
    return _shown(*await service.create(lily, principal, body), response)


@router.get("/v1/clients", summary="List OAuth clients")
async def list_clients(
    principal: KeysRead, lily: ServicesDep, limit: paging.Limit = 100, cursor: paging.Cursor = None
) -> Page[ClientView]:
    """Newest first, revoked ones included."""
    rows = await service.list_page(lily, principal, paging.decode_time_id(cursor), limit)
    return Page[ClientView](
        items=[ClientView.model_validate(row) for row in rows],
        next_cursor=paging.encode_time_id(rows[-1].created_at, rows[-1].id) if len(rows) == limit else None,
    )


@router.get("/v1/clients/{client_id}", summary="Read an OAuth client")
async def get_client(principal: KeysRead, lily: ServicesDep, client_id: ObjectId) -> ClientView:
    return ClientView.model_validate(await service.get(lily, principal, client_id))


@router.patch("/v1/clients/{client_id}", summary="Change an OAuth client")
async def patch_client(
    principal: KeysWrite, lily: ServicesDep, client_id: ObjectId, body: ClientPatch
) -> ClientView:
    """A scope taken away is gone from tokens already issued, too."""
    return ClientView.model_validate(await service.patch(lily, principal, client_id, body))


@router.post("/v1/clients/{client_id}/rotate", status_code=201, summary="Rotate a client's secret")
async def rotate_client(
    principal: KeysWrite, lily: ServicesDep, client_id: ObjectId, body: SecretRotate, response: Response
) -> ClientCreated:
    """A new secret for the same client_id; the old one stays valid for `grace_seconds`."""
    return _shown(*await service.rotate(lily, principal, client_id, body), response)


@router.delete("/v1/clients/{client_id}", status_code=204, summary="Revoke an OAuth client")
async def revoke_client(principal: KeysWrite, lily: ServicesDep, client_id: ObjectId) -> None:
    """Its tokens end too. Revoking again changes nothing."""
    await service.revoke(lily, principal, client_id)
