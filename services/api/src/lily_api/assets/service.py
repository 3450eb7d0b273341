"""Where an answer about an asset comes from: the mirror when it knows all, else the lake."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from lily_api.assets import repository, views
from lily_api.assets.repository import Filter
from lily_api.assets.schemas import AssetView, HistoryEntry
from lily_api.lake.reader import LakeReader, Place
from lily_api.services import Services
from lily_api.tenants import repository as tenants
from lily_common.documents import decode_registers
from lily_common.state import Register, merge


async def get(services: Services, tenant: str, qualified_name: str) -> AssetView:
    """The asset now. Raises NotFoundError when it is unknown or deleted."""
    document = await repository.get(services.mongo, tenant, qualified_name)
    if document is None:
        raise views.unknown()
    held: dict[str, Register] = dict(decode_registers(document))
    if not (document.get("expired") or document.get("partial")):
        return views.asset(qualified_name, held, "mirror")
    # No longer recent, or back but not yet made whole: the lake has the rest of it.
    past = await services.get(LakeReader).registers_now(tenant, qualified_name)
    past = views.without_sensitive_fields(past, await sensitive_fields(services, tenant))
    return views.asset(qualified_name, merge(past, held), "lake")


async def get_as_of(services: Services, tenant: str, qualified_name: str, at: datetime) -> AssetView:
    """The asset as it stood after all events accepted up to `at`. Raises NotFoundError like `get`."""
    registers = await services.get(LakeReader).registers_at(tenant, qualified_name, at)
    sensitive = await sensitive_fields(services, tenant)
    return views.asset(qualified_name, views.without_sensitive_fields(registers, sensitive), "lake")


async def list_page(
    services: Services, tenant: str, wanted: Filter, after: str, limit: int
) -> list[dict[str, Any]]:
    return await repository.list_after(services.mongo, tenant, wanted, after, limit)


async def incidents(
    services: Services, tenant: str, qualified_name: str, after: tuple[bool, str] | None, limit: int
) -> list[dict[str, Any]]:
    """Raises NotFoundError when the asset is unknown."""
    document = await repository.get(services.mongo, tenant, qualified_name)
    if document is None:
        raise views.unknown()
    tombstone = document.get("tombstone", "")
    return await repository.incidents(
        services.mongo, tenant, qualified_name, hidden_below=tombstone, after=after, limit=limit
    )


async def history(
    services: Services, tenant: str, qualified_name: str, before: Place | None, limit: int
) -> list[HistoryEntry]:
    """Newest first. Raises NotFoundError when neither the mirror nor the lake knows the asset."""
    rows = await services.get(LakeReader).history(tenant, qualified_name, before=before, limit=limit)
    if not rows and before is None and await repository.get(services.mongo, tenant, qualified_name) is None:
        raise views.unknown()
    sensitive = await sensitive_fields(services, tenant)
    return [views.history(row, sensitive) for row in rows]


async def sensitive_fields(services: Services, tenant: str) -> frozenset[str]:
    """What the tenant calls sensitive is not shown, wherever the answer comes from."""
    async with services.db() as session:
        found = await tenants.get(session, tenant)
    return frozenset(found.sensitive_fields) if found is not None else frozenset()
