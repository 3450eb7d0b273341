"""What the life of a connector means for the database that it keeps."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.connectors.schemas import ConnectorStatus
from lily_api.enforcement.databases import repository
from lily_api.enforcement.databases.models import KEPT, PAUSED, RESTORED, EnforcedDatabase
from lily_api.enforcement.databases.rounds import Rounds
from lily_api.services import Services
from lily_common.errors import ConflictError, FieldError, InvalidInputError
from lily_connectors import registry
from lily_connectors.models import Connector
from lily_connectors.vendors.postgres_policies.config import Config

MAX_DATABASES = 50
_WANTED = {"active": KEPT, "paused": PAUSED}
#: What a database is kept by, and under which names it is given back: another is another connector.
_FIXED = ("host", "port", "database", "schemas", "enforce")


def check_fixed(old: dict[str, Any], new: Config) -> None:
    """Raises InvalidInputError (422) when a field changes that what was made depends on."""
    fresh = new.model_dump(mode="json")
    fields = [name for name in _FIXED if fresh[name] != old.get(name)]
    gone = {reader["role"] for reader in old["readers"]} - {reader.role for reader in new.readers}
    errors = [
        FieldError(f"body.config.{name}", "cannot be changed: make another connector") for name in fields
    ]
    if gone:
        message = f"{', '.join(sorted(gone))} cannot be left out: make another connector"
        errors.append(FieldError("body.config.readers", message))
    if errors:
        raise InvalidInputError(f"{errors[0].field}: {errors[0].message}", errors)


async def add(session: AsyncSession, connector: Connector) -> None:
    """In the transaction that makes the connector. Raises ConflictError when the tenant has too many."""
    if await repository.count(session, connector.tenant) >= MAX_DATABASES:
        raise ConflictError(f"a tenant has at most {MAX_DATABASES} kept databases", "too-many-databases")
    session.add(
        EnforcedDatabase(
            connector_id=connector.id,
            tenant=connector.tenant,
            kind=connector.kind,
            config=connector.config,
            secrets=connector.secrets,
            wanted=_WANTED[connector.status],
            revision=1,
        )
    )
    await session.flush()


async def change(session: AsyncSession, connector: Connector) -> bool:
    """In the transaction that changes the connector; whether there is a database that follows."""
    row = await repository.get(session, connector.tenant, connector.id, lock=True)
    if row is None:
        return False
    row.config, row.secrets, row.wanted = connector.config, connector.secrets, _WANTED[connector.status]
    _bump(row)
    return True


async def drop(session: AsyncSession, connector: Connector) -> bool:
    """In the transaction that deletes the connector; whether there is a database to give back."""
    row = await repository.get(session, connector.tenant, connector.id, lock=True)
    if row is None:
        return False
    row.wanted = RESTORED
    _bump(row)
    return True


async def carry_out(services: Services, connector: Connector) -> str | None:
    """After the commit: have it carried out now; what stands in the way, or that it takes longer than a request."""
    return await services.get(Rounds).now(connector.tenant, connector.id)


async def status(services: Services, connector: Connector) -> ConnectorStatus | None:
    """None for a connector that keeps no database."""
    if not registry.kind(connector.kind).has_enforcing:
        return None
    async with services.db() as session:
        row = await repository.get(session, connector.tenant, connector.id)
    settled = row is not None and row.settled == row.revision
    problems = list(row.report.get("problems", [])) if row is not None else []
    problem = row.problem if row is not None else None
    if connector.status == "paused":
        state = "paused"
    elif problem is not None:
        state = "failed"
    elif not settled:
        state = "pending"
    else:
        state = "retrying" if problems else "running"
    return ConnectorStatus(
        id=connector.id,
        wanted=connector.status,
        state=state,
        settled=settled or connector.status == "paused",
        problem=problem or (problems[0] if problems else None),
        looked_at=row.looked_at if row is not None else None,
        problems=problems,
        drift=list(row.report.get("drift", [])) if row is not None else [],
    )


def _bump(row: EnforcedDatabase) -> None:
    row.revision += 1
    row.changed_at = datetime.now(UTC)
