"""The life of an API key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from lily_api import audit
from lily_api.auth import credentials
from lily_api.auth.granting import check_expiry, check_grant
from lily_api.auth.principal import Principal
from lily_api.keys import repository
from lily_api.keys.models import ApiKey
from lily_api.keys.schemas import KeyCreate, KeyRotate
from lily_api.services import Services
from lily_common.errors import ConflictError, NotFoundError


async def create(services: Services, principal: Principal, wanted: KeyCreate) -> tuple[ApiKey, str]:
    """The key's row and, this once, its text."""
    scopes = check_grant(principal, wanted.scopes)
    expires_at = check_expiry(wanted.expires_at)
    async with services.db.begin() as session:
        key, text = await _add(session, principal, wanted.name, scopes, expires_at)
        detail = {"name": key.name, "scopes": scopes, "expires_at": expires_at}
        await audit.record(session, principal, "key.create", f"key:{key.id}", detail)
    return key, text


async def get(services: Services, principal: Principal, key_id: str) -> ApiKey:
    async with services.db() as session:
        return _found(await repository.get(session, principal.tenant, key_id))


async def list_page(
    services: Services, principal: Principal, after: tuple[datetime, str] | None, limit: int
) -> list[ApiKey]:
    async with services.db() as session:
        return await repository.list_page(session, principal.tenant, after, limit)


async def rotate(
    services: Services, principal: Principal, key_id: str, wanted: KeyRotate
) -> tuple[ApiKey, str]:
    """A new key with the name and scopes of the old, which ends after the grace (never later than it would have)."""
    new_end = check_expiry(wanted.expires_at)
    async with services.db.begin() as session:
        old = _found(await repository.get(session, principal.tenant, key_id, lock=True))
        _check_live(old)
        # The answer shows a secret with these scopes: whoever reads it must have them already.
        scopes = check_grant(principal, old.scopes)
        old_end = datetime.now(UTC) + timedelta(seconds=wanted.grace_seconds)
        old.expires_at = min(old.expires_at or old_end, old_end)
        key, text = await _add(session, principal, old.name, scopes, new_end, rotated_from=old.id)
        detail = {"replaced_by": key.id, "old_key_expires_at": old.expires_at, "expires_at": new_end}
        await audit.record(session, principal, "key.rotate", f"key:{old.id}", detail)
    services.authenticator.forget()
    return key, text


async def revoke(services: Services, principal: Principal, key_id: str) -> None:
    """At once in this process, within the cache's time in others. Revoking twice is no error."""
    async with services.db.begin() as session:
        key = _found(await repository.get(session, principal.tenant, key_id, lock=True))
        if key.revoked_at is None:
            key.revoked_at = datetime.now(UTC)
            await audit.record(session, principal, "key.revoke", f"key:{key.id}")
    services.authenticator.forget()


async def _add(
    session: AsyncSession,
    principal: Principal,
    name: str,
    scopes: list[str],
    expires_at: datetime | None,
    *,
    rotated_from: str | None = None,
) -> tuple[ApiKey, str]:
    secret = credentials.new_api_key()
    key = ApiKey(
        id=credentials.new_id("key"),
        tenant=principal.tenant,
        name=name,
        prefix=secret.prefix,
        digest=secret.digest,
        scopes=scopes,
        created_by=principal.subject,
        expires_at=expires_at,
        rotated_from=rotated_from,
    )
    session.add(key)
    await session.flush()
    await session.refresh(key)
    return key, secret.text


def _found(key: ApiKey | None) -> ApiKey:
    if key is None:
        raise NotFoundError("there is no such API key")
    return key


def _check_live(key: ApiKey) -> None:
    if key.revoked_at is not None:
        raise ConflictError("the API key has been revoked", code="key-revoked")
    if key.expires_at is not None and key.expires_at <= datetime.now(UTC):
        raise ConflictError("the API key has expired", code="key-expired")
