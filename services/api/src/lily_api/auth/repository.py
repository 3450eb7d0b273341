"""Queries of authentication. They look across tenants: the credential is what tells the tenant."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import exists, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.keys.models import ApiKey
from lily_api.oauth.models import OAuthClient
from lily_api.tenants.models import Tenant
from lily_common.tenancy import across_tenants

_WHY = "the credential tells the tenant"


async def find_key(session: AsyncSession, prefix: str) -> ApiKey | None:
    statement = across_tenants(select(ApiKey).where(ApiKey.prefix == prefix), _WHY)
    return (await session.scalars(statement)).one_or_none()


async def find_client(session: AsyncSession, client_id: str) -> OAuthClient | None:
    statement = across_tenants(select(OAuthClient).where(OAuthClient.id == client_id), _WHY)
    return (await session.scalars(statement)).one_or_none()


async def tenant_exists(session: AsyncSession, tenant: str) -> bool:
    return bool(await session.scalar(select(exists().where(Tenant.id == tenant))))


async def touch(session: AsyncSession, used: dict[tuple[str, str], datetime]) -> None:
    """Write the times of last use. `used`: (`key` or `client`, id) -> time."""
    # In one order, so that two processes cannot wait for each other.
    for (kind, identifier), at in sorted(used.items()):
        model: type[ApiKey] | type[OAuthClient] = ApiKey if kind == "key" else OAuthClient
        statement = update(model).where(model.id == identifier).values(last_used_at=at)
        options = {"synchronize_session": False}
        await session.execute(across_tenants(statement, _WHY), execution_options=options)
