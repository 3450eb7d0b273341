"""The life of a declaration: a row first, then the message; the row says `published` only when Kafka has it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api import audit
from lily_api.auth.principal import Principal
from lily_api.commands import service as commands
from lily_api.lake.rows import RowPage, RowReader
from lily_api.services import Services
from lily_api.tables import repository
from lily_api.tables.models import GoldTable, TableRefresh
from lily_api.tables.schemas import RefreshView, TableView
from lily_common.errors import ConflictError, ForbiddenError, NotFoundError
from lily_common.events import TABLES_TOPIC
from lily_common.gold.builtin import EVERYONE, builtin, table_path
from lily_common.gold.spec import TableSpec
from lily_common.kafka import Record

MAX_TABLES = 200
DROP = "drop_table"


async def declare(services: Services, principal: Principal, spec: TableSpec) -> tuple[TableView, bool]:
    """The table and whether it is new. Raises UnavailableError when Kafka does not acknowledge: sent later all the same."""
    tenant = principal.tenant
    declaration = spec.model_dump(mode="json", by_alias=True)
    async with services.db.begin() as session:
        row = await repository.get(session, tenant, spec.name, lock=True)
        created = row is None or row.status == repository.DELETED
        if created and await repository.count(session, tenant) >= MAX_TABLES:
            raise ConflictError(f"a tenant has at most {MAX_TABLES} tables", "too-many-tables")
        if row is None:
            row = GoldTable(tenant=tenant, name=spec.name, created_by=principal.subject)
            session.add(row)
        row.declaration, row.status, row.published = declaration, repository.ACTIVE, False
        row.updated_at = datetime.now(UTC)
        await session.flush()
        action = "table.create" if created else "table.update"
        await audit.record(session, principal, action, f"table:{spec.name}", {"declaration": declaration})
    await publish(services, tenant, spec.name)
    return await get(services, tenant, spec.name), created


async def delete(services: Services, principal: Principal, name: str) -> None:
    """Forget the declaration and have the lake job remove the rows."""
    if name in builtin():
        raise ForbiddenError(f"{name} is a built-in table", code="builtin-table")
    tenant = principal.tenant
    async with services.db.begin() as session:
        row = await repository.get(session, tenant, name, lock=True)
        if row is None or row.status == repository.DELETED:
            raise _unknown(name)
        row.status, row.published, row.updated_at = repository.DELETED, False, datetime.now(UTC)
        await repository.forget_refresh(session, tenant, name)
        command = commands.add(session, principal, DROP, {"table": name})
        await audit.record(session, principal, "table.delete", f"table:{name}", {"command": command.id})
    await publish(services, tenant, name)
    await commands.publish(services, command)


async def publish(services: Services, tenant: str, name: str) -> None:
    """Send the declaration as it is now, or that there is none. The row is locked: none overtakes a newer one."""
    async with services.db.begin() as session:
        row = await repository.get(session, tenant, name, lock=True)
        if row is None:
            return
        gone = row.status == repository.DELETED
        message = {"tenant": tenant, "name": name, "declaration": row.declaration}
        value = None if gone else orjson.dumps(message)
        await services.producer.send([Record(TABLES_TOPIC, f"{tenant}|{name}".encode(), value)])
        if gone:
            await repository.remove(session, tenant, name)
        else:
            row.published = True


async def get(services: Services, tenant: str, name: str) -> TableView:
    """Raises NotFoundError."""
    async with services.db() as session:
        row = await repository.get(session, tenant, name)
        refresh = (await repository.refreshes(session, tenant, [name])).get(name)
    if name in builtin():
        return _builtin_view(builtin()[name], refresh)
    if row is None or row.status == repository.DELETED:
        raise _unknown(name)
    return _view(row, refresh)


async def rows(
    services: Services,
    tenant: str,
    name: str,
    after: Sequence[Any] | None,
    limit: int,
    at: datetime | None,
) -> RowPage:
    """Rows after that key, now or at a time; none while the table is not built. Raises NotFoundError."""
    await get(services, tenant, name)
    path = table_path(EVERYONE if name in builtin() else tenant, name)
    only = {"tenant": tenant} if name in builtin() else {}
    page = await services.get(RowReader).page(path, only, after=after, limit=limit, at=at)
    return page or RowPage([], None)


async def list_page(
    services: Services, tenant: str, after: str | None, limit: int
) -> tuple[list[TableView], bool]:
    """Tables after that name (None: from the start) and whether there are more. The built-in ones come first."""
    builtins = sorted(builtin())
    first = builtins if after is None else builtins[builtins.index(after) + 1 :] if after in builtins else []
    first = first[:limit]
    async with services.db() as session:
        own = "" if after is None or after in builtins else after
        rows = await repository.list_after(session, tenant, own, limit - len(first) + 1)
        more = len(rows) > limit - len(first)
        rows = rows[: limit - len(first)]
        refreshes = await repository.refreshes(session, tenant, [*first, *(row.name for row in rows)])
    views = [_builtin_view(builtin()[name], refreshes.get(name)) for name in first]
    views += [_view(row, refreshes.get(row.name)) for row in rows]
    return views, more


async def keep_refresh(session: AsyncSession, message: dict[str, object]) -> None:
    """Write what the lake job says of a refresh; of a table that is gone, nothing."""
    tenant, table = str(message["tenant"]), str(message["table"])
    if tenant != EVERYONE and not await repository.exists_active(session, tenant, table):
        return
    at = datetime.fromisoformat(str(message["at"]))
    detail = message["detail"]
    status = str(message["status"])
    await repository.keep_refresh(
        session, tenant, table, status, at, detail if isinstance(detail, dict) else {}
    )


def _view(row: GoldTable, refresh: TableRefresh | None) -> TableView:
    return TableView(
        name=row.name,
        builtin=False,
        declaration=TableSpec.model_validate(row.declaration),
        created_by=row.created_by,
        created_at=row.created_at,
        updated_at=row.updated_at,
        last_refresh=RefreshView.model_validate(refresh) if refresh else None,
    )


def _builtin_view(spec: TableSpec, refresh: TableRefresh | None) -> TableView:
    """How many rows a refresh wrote tells of other tenants: only when it was and how long it took is shown."""
    shown = None
    if refresh is not None:
        detail = {name: refresh.detail[name] for name in ("mode", "seconds") if name in refresh.detail}
        shown = RefreshView.model_validate({"status": refresh.status, "at": refresh.at, "detail": detail})
    return TableView(name=spec.name, builtin=True, declaration=spec, last_refresh=shown)


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f"there is no table {name}", code="unknown-table")
