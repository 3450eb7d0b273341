"""Pages of declarations, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel

from lily_api import paging
from lily_api.declarations import service
from lily_api.declarations.kinds import Kind
from lily_api.declarations.models import Declaration
from lily_api.schemas import Page
from lily_api.services import Services

View = TypeVar("View", bound=BaseModel)


async def page(
    services: Services,
    tenant: str,
    kind: Kind,
    limit: int,
    cursor: str | None,
    view: Callable[[Declaration], View],
) -> Page[View]:
    """The declarations behind `cursor`, each as `view` shows it."""
    after = paging.decode(cursor, str)
    rows = await service.list_page(services, tenant, kind, after[0] if after else "", limit + 1)
    more = paging.encode(rows[limit - 1].name) if len(rows) > limit else None
    return Page[View](items=[view(row) for row in rows[:limit]], next_cursor=more)
