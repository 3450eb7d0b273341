"""The life of an OAuth client."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lily_api import audit
from lily_api.auth import credentials
from lily_api.auth.granting import check_grant
from lily_api.auth.principal import Principal
from lily_api.oauth import repository
from lily_api.oauth.models import OAuthClient
from lily_api.oauth.schemas import ClientCreate, ClientPatch, SecretRotate
from lily_api.services import Services
from lily_common.errors import ConflictError, NotFoundError


async def create(services: Services, principal: Principal, wanted: ClientCreate) -> tuple[OAuthClient, str]:
    """The client's row and, this once, its secret."""
    scopes = check_grant(principal, wanted.scopes)
    secret = credentials.new_client_secret()
    async with services.db.begin() as session:
        client = OAuthClient(
            id=credentials.new_id("client"),
            tenant=principal.tenant,
            name=wanted.name,
            secret_prefix=secret.prefix,
            secret_digest=secret.digest,
            scopes=scopes,
            created_by=principal.subject,
        )
        session.add(client)
        await session.flush()
        await session.refresh(client)
        detail = {"name": client.name, "scopes": scopes}
        await audit.record(session, principal, "client.create", f"client:{client.id}", detail)
    return client, secret.text


async def get(services: Services, principal: Principal, client_id: str) -> OAuthClient:
    async with services.db() as session:
        return _found(await repository.get(session, principal.tenant, client_id))


async def list_page(
    services: Services, principal: Principal, after: tuple[datetime, str] | None, limit: int
) -> list[OAuthClient]:
    async with services.db() as session:
        return await repository.list_page(session, principal.tenant, after, limit)


async def patch(services: Services, principal: Principal, client_id: str, wanted: ClientPatch) -> OAuthClient:
    """Change name or scopes; a scope taken away is gone from tokens already issued, too."""
    async with services.db.begin() as session:
        client = _live(await repository.get(session, principal.tenant, client_id, lock=True))
        if wanted.name is not None:
            client.name = wanted.name
        if wanted.scopes is not None:
            client.scopes = check_grant(principal, wanted.scopes)
        detail = wanted.model_dump(exclude_none=True)
        await audit.record(session, principal, "client.patch", f"client:{client.id}", detail)
    services.authenticator.forget()
    return client


async def rotate(
    services: Services, principal: Principal, client_id: str, wanted: SecretRotate
) -> tuple[OAuthClient, str]:
    """A new secret for the same client_id; the old one stays valid for the grace."""
    secret = credentials.new_client_secret()
    async with services.db.begin() as session:
        client = _live(await repository.get(session, principal.tenant, client_id, lock=True))
        # The answer shows a secret with these scopes: whoever reads it must have them already.
        check_grant(principal, client.scopes)
        client.previous_digest = client.secret_digest
        client.previous_until = datetime.now(UTC) + timedelta(seconds=wanted.grace_seconds)
        client.secret_prefix, client.secret_digest = secret.prefix, secret.digest
        detail = {"old_secret_expires_at": client.previous_until}
        await audit.record(session, principal, "client.rotate", f"client:{client.id}", detail)
    services.authenticator.forget()
    return client, secret.text


async def revoke(services: Services, principal: Principal, client_id: str) -> None:
    """Its tokens end too. Revoking twice is no error."""
    async with services.db.begin() as session:
        client = _found(await repository.get(session, principal.tenant, client_id, lock=True))
        if client.revoked_at is None:
            client.revoked_at = datetime.now(UTC)
            await audit.record(session, principal, "client.revoke", f"client:{client.id}")
    services.authenticator.forget()


def _found(client: OAuthClient | None) -> OAuthClient:
    if client is None:
        raise NotFoundError("there is no such client")
    return client


def _live(client: OAuthClient | None) -> OAuthClient:
    found = _found(client)
    if found.revoked_at is not None:
        raise ConflictError("the client has been revoked", code="client-revoked")
    return found
