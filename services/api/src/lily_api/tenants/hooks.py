"""What other domains do when a tenant comes to be: in the transaction that creates it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.subscriptions.managed import add_managed

#: Called with the open session and the new tenant's id; an error undoes the creation.
ON_CREATED: list[Callable[[AsyncSession, str], Awaitable[None]]] = [add_managed]
