"""Every tenant has one managed subscription, to its own Kafka topic; it is made with the tenant."""

from __future__ import annotations

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from lily_connectors.egress.managed import managed_row
from lily_connectors.egress.models import Subscription


async def add_managed(session: AsyncSession, tenant: str) -> None:
    """In the transaction that creates the tenant. Doing it twice does it once."""
    await session.execute(insert(Subscription).values(**managed_row(tenant)).on_conflict_do_nothing())
