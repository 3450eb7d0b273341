"""Creating and changing tenants. The mirror policy goes to `lily.tenants`, where the lake job reads it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import orjson
import stamina
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from lily_api import audit
from lily_api.auth.principal import Principal
from lily_api.services import Services
from lily_api.tenants import hooks, repository
from lily_api.tenants.models import Tenant
from lily_api.tenants.schemas import TenantCreate, TenantPatch
from lily_common.errors import ConflictError, NotFoundError, UnavailableError
from lily_common.kafka import Record

TOPIC = "lily.tenants"
_PAGE = 500


async def create(services: Services, principal: Principal, wanted: TenantCreate) -> Tenant:
    """Raises ConflictError when the id is taken."""
    async with services.db.begin() as session:
        tenant = Tenant(
            id=wanted.id, name=wanted.name or wanted.id, sensitive_fields=sorted(set(wanted.sensitive_fields))
        )
        session.add(tenant)
        try:
            await session.flush()
        except IntegrityError:
            raise ConflictError(f"the tenant {wanted.id} exists already", code="tenant-exists") from None
        await session.refresh(tenant)
        for hook in hooks.ON_CREATED:
            await hook(session, tenant.id)
        await audit.record(
            session, principal, "tenant.create", f"tenant:{tenant.id}", wanted.model_dump(), tenant=tenant.id
        )
        # Inside the transaction: a tenant without a published policy never exists.
        await _publish(services, [tenant])
    services.authenticator.forget()
    return tenant


async def patch(services: Services, principal: Principal, tenant_id: str, wanted: TenantPatch) -> Tenant:
    """Overlay the given fields. The row is locked until the policy is out, so that the last one published is the last kept."""
    changes = wanted.model_dump(exclude_none=True)
    async with services.db.begin() as session:
        tenant = await repository.get(session, _visible(principal, tenant_id), lock=True)
        if tenant is None:
            raise NotFoundError("there is no such tenant", code="unknown-tenant")
        if wanted.name is not None:
            tenant.name = wanted.name
        if wanted.sensitive_fields is not None:
            tenant.sensitive_fields = sorted(set(wanted.sensitive_fields))
        tenant.updated_at = datetime.now(UTC)
        await audit.record(
            session, principal, "tenant.patch", f"tenant:{tenant.id}", changes, tenant=tenant.id
        )
        await session.flush()
        await _publish(services, [tenant])
    return tenant


async def get(services: Services, principal: Principal, tenant_id: str) -> Tenant:
    async with services.db() as session:
        tenant = await repository.get(session, _visible(principal, tenant_id))
    if tenant is None:
        raise NotFoundError("there is no such tenant", code="unknown-tenant")
    return tenant


async def list_page(services: Services, after: str, limit: int) -> list[Tenant]:
    async with services.db() as session:
        return await repository.list_after(session, after, limit)


@asynccontextmanager
async def publish_all_policies(services: Services) -> AsyncIterator[None]:
    """At start: bring the compacted topic in line with the database, should one ever have been lost or reset.

    Beside the requests and until it succeeds: an API whose Kafka is away still starts, and says so on /readyz.
    """
    task = asyncio.create_task(_publish_all(services), name="publish-policies")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _publish_all(services: Services) -> None:
    failures = (UnavailableError, SQLAlchemyError)
    async for attempt in stamina.retry_context(on=failures, attempts=None, timeout=None, wait_max=30.0):
        with attempt:
            await _publish_from_database(services)


async def _publish_from_database(services: Services) -> None:
    after = ""
    while True:
        # The rows are locked until the policies are out: no patch can be overtaken by what it replaced.
        async with services.db.begin() as session:
            page = await repository.list_after(session, after, _PAGE, lock=True)
            await _publish(services, page)
        if not page:
            return
        after = page[-1].id


def _visible(principal: Principal, tenant_id: str) -> str:
    if not principal.is_operator and principal.tenant != tenant_id:
        raise NotFoundError("there is no such tenant", code="unknown-tenant")
    return tenant_id


async def _publish(services: Services, tenants: Iterable[Tenant]) -> None:
    await services.producer.send(
        [
            Record(
                TOPIC,
                tenant.id.encode(),
                orjson.dumps({"tenant": tenant.id, "sensitive_fields": tenant.sensitive_fields}),
            )
            for tenant in tenants
        ]
    )
