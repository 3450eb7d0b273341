"""`POST /oauth2/token` in RFC 6749's own terms: client authentication (2.3.1), the grant (4.4), its errors (5.2)."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from urllib.parse import parse_qsl, unquote_plus

from lily_api.auth import credentials, repository
from lily_api.oauth.models import OAuthClient
from lily_api.oauth.schemas import TokenView
from lily_api.services import Services

_MAX_FIELDS = 20


class TokenError(Exception):
    """An error of the token endpoint. `challenge` asks for Basic credentials in the answer."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.error = error
        self.description = description
        self.status = status


async def grant(services: Services, authorization: str, content_type: str, body: bytes) -> TokenView:
    """The access token for a client-credentials request. Raises TokenError."""
    form = _form(content_type, body)
    grant_type = form.get("grant_type")
    if not grant_type:
        raise TokenError("invalid_request", "grant_type is missing")
    if grant_type != "client_credentials":
        raise TokenError("unsupported_grant_type", "only client_credentials is supported")
    client = await _authenticated(services, *_client_credentials(authorization, form))
    scopes = _scopes(client, form.get("scope", ""))
    token = services.signer.issue(subject=client.id, tenant=client.tenant, scopes=scopes)
    return TokenView(access_token=token, expires_in=services.signer.lifetime, scope=" ".join(sorted(scopes)))


def _form(content_type: str, body: bytes) -> dict[str, str]:
    if content_type.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise TokenError("invalid_request", "the body has to be application/x-www-form-urlencoded")
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict"
        )
    except (UnicodeError, ValueError):
        raise TokenError("invalid_request", "the form cannot be read") from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise TokenError("invalid_request", "a parameter is there twice")
    return form


def _client_credentials(authorization: str, form: dict[str, str]) -> tuple[str, str]:
    scheme, _, value = authorization.partition(" ")
    if not scheme:
        client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
        if not client_id or not secret:
            raise TokenError("invalid_client", "client_id and client_secret are missing", 401)
        return client_id, secret
    if scheme.lower() != "basic":
        raise TokenError("invalid_client", "only Basic authentication is supported", 401)
    if "client_secret" in form:
        raise TokenError("invalid_request", "two ways of client authentication at once")
    try:
        client_id, _, secret = base64.b64decode(value.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeError):
        raise TokenError("invalid_client", "the Basic credentials cannot be read", 401) from None
    return unquote_plus(client_id), unquote_plus(secret)


async def _authenticated(services: Services, client_id: str, secret: str) -> OAuthClient:
    wrong = TokenError("invalid_client", "unknown client or wrong secret", 401)
    if "\x00" in client_id:
        raise wrong
    async with services.db() as session:
        client = await repository.find_client(session, client_id)
    if client is None:
        raise wrong
    current = credentials.matches(secret, client.secret_digest)
    previous = (
        client.previous_digest is not None
        and client.previous_until is not None
        and client.previous_until > datetime.now(UTC)
        and credentials.matches(secret, client.previous_digest)
    )
    if not current and not previous:
        raise wrong
    if client.revoked_at is not None:
        raise TokenError("invalid_client", "the client has been revoked", 401)
    services.authenticator.used("client", client.id)
    return client


def _scopes(client: OAuthClient, asked: str) -> frozenset[str]:
    """All that the client has when it asks for none (RFC 6749, 3.3)."""
    wanted = frozenset(asked.split())
    held = frozenset(client.scopes)
    if not wanted:
        return held
    if not wanted <= held and "admin" not in held:
        raise TokenError("invalid_scope", "the client does not have all of these scopes")
    return wanted
