"""What tenants have declared about enforcement, kept in memory: their policies and mappings."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field

from pydantic import ValidationError
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.declarations import repository
from lily_api.declarations.kinds import MAPPING, POLICY
from lily_api.declarations.models import Declaration
from lily_api.services import Services
from lily_common.logs import get_logger
from lily_common.policies import mapping, model
from lily_common.policies.mapping import Mapping
from lily_common.policies.model import Policy
from lily_common.tenancy import across_tenants

log = get_logger(__name__)
LOOK_SECONDS = 1.0
_KINDS = (POLICY.name, MAPPING.name)
_WHY = "enforcement answers for every tenant from memory"


@dataclass(frozen=True)
class Declared:
    """One tenant's."""

    policies: list[Policy] = field(default_factory=list)
    mappings: list[Mapping] = field(default_factory=list)


_NOTHING = Declared()


class DeclaredView:
    """Every tenant's declarations, as of `complete_until` (by `time.monotonic`)."""

    def __init__(self) -> None:
        self._by_tenant: dict[str, Declared] = {}
        #: Grows with every change.
        self.changes = -1
        self.complete_until = float("-inf")

    def of(self, tenant: str) -> Declared:
        return self._by_tenant.get(tenant, _NOTHING)

    @property
    def in_use(self) -> bool:
        """Whether any tenant has an engine ask."""
        return any(one.mappings for one in self._by_tenant.values())

    async def look(self, services: Services) -> None:
        """Take in what changed. Raises SQLAlchemyError."""
        asked = time.monotonic()
        async with services.db() as session:
            changes = await _changes(session)
            rows = [] if changes == self.changes else await _active(session)
        if changes != self.changes:
            self._by_tenant = await asyncio.to_thread(_grouped, rows)
            self.changes = changes
        self.complete_until = asked


async def _changes(session: AsyncSession) -> int:
    """A number that grows with every change: rows stay, and each change counts up its row's version."""
    statement = select(func.coalesce(func.sum(Declaration.version), 0)).where(Declaration.kind.in_(_KINDS))
    return int(await session.scalar(across_tenants(statement, _WHY)) or 0)


async def _active(session: AsyncSession) -> list[Declaration]:
    statement = select(Declaration).where(
        Declaration.kind.in_(_KINDS), Declaration.status == repository.ACTIVE
    )
    ordered = statement.order_by(Declaration.tenant, Declaration.name)
    return list(await session.scalars(across_tenants(ordered, _WHY)))


def _grouped(rows: list[Declaration]) -> dict[str, Declared]:
    found: defaultdict[str, Declared] = defaultdict(Declared)
    for row in rows:
        try:
            if row.kind == POLICY.name:
                found[row.tenant].policies.append(model.read(row.body))
            else:
                found[row.tenant].mappings.append(mapping.read(row.body))
        except ValidationError:  # of another release's making
            log.exception("declaration not understood", tenant=row.tenant, kind=row.kind, name=row.name)
    return dict(found)
