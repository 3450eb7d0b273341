"""Tags as egress keeps them in PostgreSQL: what a view begins with, before it follows the notices."""

from __future__ import annotations

from sqlalchemy import select

from lily_api.enforcement.view import TagView
from lily_api.services import Services
from lily_common.tenancy import across_tenants
from lily_connectors.egress.models import EgressRegister

_PAGE = 10_000


async def fill(view: TagView, services: Services) -> None:
    """Put every tenant's tags and deletions into the view. Raises SQLAlchemyError.

    Egress writes a notice's register before it commits the notice's offset: a view that is filled after the committed
    offsets were read, and then follows from those, misses nothing.
    """
    columns = (
        EgressRegister.asset,
        EgressRegister.folded,
        EgressRegister.kind,
        EgressRegister.tag,
        EgressRegister.member,
        EgressRegister.version,
        EgressRegister.live,
    )
    statement = select(*columns).where(EgressRegister.kind.in_(("tag", "deleted")))
    why = "enforcement answers for every tenant from memory"
    async with services.db() as session:
        rows = await session.stream(
            across_tenants(statement, why), execution_options={"yield_per": _PAGE, "lily_across_tenants": why}
        )
        async for row in rows:
            if row.kind == "deleted":
                view.deleted(row.asset, row.version)
            else:
                view.tagged(row.asset, row.folded, row.tag, row.member, row.version, live=row.live)
