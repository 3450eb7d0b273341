"""Reading deliveries and trying them again."""

from __future__ import annotations

from uuid import UUID

from lily_api import audit
from lily_api.auth.principal import Principal
from lily_api.deliveries import repository
from lily_api.deliveries.repository import Row, Wanted
from lily_api.services import Services
from lily_api.subscriptions import repository as subscriptions
from lily_common.errors import ConflictError, NotFoundError
from lily_connectors.egress.models import ACTIVE, PAUSED, DeliveryAttempt


async def list_page(
    services: Services, principal: Principal, wanted: Wanted, before: int | None, limit: int
) -> list[Row]:
    async with services.db() as session:
        return await repository.list_page(session, principal.tenant, wanted, before, limit)


async def get(
    services: Services, principal: Principal, delivery_id: UUID
) -> tuple[Row, list[DeliveryAttempt]]:
    async with services.db() as session:
        row = _found(await repository.get(session, principal.tenant, delivery_id))
        return row, await repository.attempts(session, principal.tenant, delivery_id)


async def retry(services: Services, principal: Principal, delivery_id: UUID) -> Row:
    """Send it again now, under its id, whatever became of it; with a new set of attempts when it was done with."""
    tenant = principal.tenant
    async with services.db.begin() as session:
        delivery, _ = _found(await repository.get(session, tenant, delivery_id, lock=True))
        subscription = await subscriptions.get(session, tenant, delivery.subscription_id)
        if subscription is None or subscription.status not in (ACTIVE, PAUSED):
            raise ConflictError("its subscription is disabled or deleted", code="subscription-not-active")
        await repository.make_due(session, tenant, delivery_id)
        await subscriptions.notify(session, f"retry {delivery_id}")
        await audit.record(session, principal, "delivery.retry", f"delivery:{delivery_id}")
    async with services.db() as session:
        return _found(await repository.get(session, tenant, delivery_id))


def _found(row: Row | None) -> Row:
    if row is None:
        raise NotFoundError("there is no such delivery")
    return row
