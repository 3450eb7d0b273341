"""The life of a declaration: a row first, then the message; the row says `published` only when Kafka has it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from lily_api import audit
from lily_api.auth.principal import Principal
from lily_api.declarations import repository
from lily_api.declarations.kinds import KINDS, Kind
from lily_api.declarations.models import Declaration
from lily_api.services import Services
from lily_common.errors import ConflictError, NotFoundError
from lily_common.kafka import Record


async def declare(
    services: Services, principal: Principal, kind: Kind, name: str, body: dict[str, Any]
) -> tuple[Declaration, bool]:
    """The declaration and whether it is new. One that is declared again as it stands keeps its version.

    Raises ConflictError beyond the kind's limit, UnavailableError when Kafka does not acknowledge: sent later all the
    same.
    """
    key = (principal.tenant, kind.name, name)
    async with services.db.begin() as session:
        row = await repository.get(session, key, lock=True)
        created = row is None or row.status == repository.DELETED
        if created and await repository.count(session, principal.tenant, kind.name) >= kind.most:
            raise ConflictError(f"a tenant has at most {kind.most} {kind.noun}s", f"too-many-{kind.name}s")
        if row is None:
            row = Declaration(
                tenant=key[0], kind=key[1], name=key[2], body={}, version=0, created_by=principal.subject
            )
            session.add(row)
        if created or row.body != body:
            row.body, row.status, row.published = body, repository.ACTIVE, False
            row.version += 1
            row.updated_at = datetime.now(UTC)
            await session.flush()
            action = f"{kind.name}.create" if created else f"{kind.name}.update"
            detail = {"version": row.version, "declaration": body}
            await audit.record(session, principal, action, f"{kind.name}:{name}", detail)
    await publish(services, key)
    return await get(services, principal.tenant, kind, name), created


async def delete(services: Services, principal: Principal, kind: Kind, name: str) -> None:
    """Forget the declaration: its row stays, for its version and the audit. Raises NotFoundError."""
    key = (principal.tenant, kind.name, name)
    async with services.db.begin() as session:
        row = await repository.get(session, key, lock=True)
        if row is None or row.status == repository.DELETED:
            raise _unknown(kind, name)
        row.status, row.published, row.updated_at = repository.DELETED, False, datetime.now(UTC)
        row.version += 1
        await audit.record(
            session, principal, f"{kind.name}.delete", f"{kind.name}:{name}", {"version": row.version}
        )
    await publish(services, key)


async def publish(services: Services, key: repository.Key) -> None:
    """Send the declaration as it is now, or that there is none. The row is locked: none overtakes a newer one."""
    async with services.db.begin() as session:
        row = await repository.get(session, key, lock=True)
        if row is None or row.kind not in KINDS:
            return
        topic = KINDS[row.kind].topic
        if topic is None:
            row.published = True
            return
        message = {
            "tenant": row.tenant,
            "name": row.name,
            "version": row.version,
            "updated_at": row.updated_at,
            "declaration": row.body,
        }
        value = None if row.status == repository.DELETED else orjson.dumps(message)
        record = Record(topic, f"{row.tenant}|{row.name}".encode(), value)
        await services.producer.send([record])
        row.published = True


async def get(services: Services, tenant: str, kind: Kind, name: str) -> Declaration:
    """Raises NotFoundError."""
    async with services.db() as session:
        row = await repository.get(session, (tenant, kind.name, name))
    if row is None or row.status == repository.DELETED:
        raise _unknown(kind, name)
    return row


async def list_page(services: Services, tenant: str, kind: Kind, after: str, limit: int) -> list[Declaration]:
    """Declarations after that name."""
    async with services.db() as session:
        return await repository.list_after(session, tenant, kind.name, after, limit)


def _unknown(kind: Kind, name: str) -> NotFoundError:
    return NotFoundError(f"there is no {kind.noun} {name}", code=f"unknown-{kind.name}")
