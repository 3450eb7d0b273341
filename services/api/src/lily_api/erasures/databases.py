"""The erasure's part in PostgreSQL: what was told to subscribers, every attempt of it, state, arguments of commands.

Rows that are gone stay in a table's files until it is written anew (VACUUM FULL), in which time its readers wait.
"""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

import orjson
import psycopg
from psycopg import sql
from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.commands.models import Command
from lily_api.services import Services
from lily_common.db import tenant_scope
from lily_common.erasing.stoplist import Matcher
from lily_common.logs import get_logger
from lily_connectors.egress.digests import asset_key
from lily_connectors.egress.models import Delivery, DeliveryAttempt, EgressRegister, EgressSeen, NoticeRow

log = get_logger(__name__)
_CHUNK = 500
_TABLES = ("notices", "deliveries", "delivery_attempts", "egress_registers", "egress_seen", "commands")
_LOCK_TIMEOUT = "20s"


async def erase(services: Services, matcher: Matcher, asset: str | None) -> dict[str, int]:
    """Rows removed or changed, by table. `asset`: the qualified name, where an asset is erased."""
    counts: Counter[str] = Counter()
    assets = {asset_key(matcher.tenant, asset)} if asset is not None else set()
    await _notices(services, matcher, counts, assets)
    await _texts(services, matcher, counts)
    async with services.db.begin() as session:
        counts["egress_registers"] = await _registers(session, matcher, assets)
        if matcher.everything:
            removed = await session.execute(tenant_scope(delete(EgressSeen), EgressSeen, matcher.tenant))
            counts["egress_seen"] = getattr(removed, "rowcount", 0)
        counts["commands"] = await _commands(session, matcher)
    await _write_anew(services)
    return {table: counts[table] for table in _TABLES}


async def _notices(services: Services, matcher: Matcher, counts: Counter[str], assets: set[UUID]) -> None:
    """Notices that hold what is erased, with their deliveries and attempts; adds to `assets` those that went."""
    after: UUID | None = None
    while True:
        async with services.db.begin() as session:
            statement = tenant_scope(select(NoticeRow), NoticeRow, matcher.tenant)
            if after is not None:
                statement = statement.where(NoticeRow.id > after)
            page = list(await session.scalars(statement.order_by(NoticeRow.id).limit(_CHUNK)))
            if not page:
                return
            after = page[-1].id
            gone = [row for row in page if _told(row, matcher)]
            assets |= {row.asset for row in gone if matcher.text(row.subject)}
            if not gone:
                continue
            ids = [row.id for row in gone]
            sent = tenant_scope(select(Delivery.id), Delivery, matcher.tenant).where(
                Delivery.notice_id.in_(ids)
            )
            counts["deliveries"] += len((await session.scalars(sent)).all())
            session.expunge_all()
            await session.execute(
                tenant_scope(delete(NoticeRow), NoticeRow, matcher.tenant).where(NoticeRow.id.in_(ids))
            )
            counts["notices"] += len(ids)


def _told(row: NoticeRow, matcher: Matcher) -> bool:
    if matcher.everything or any(map(matcher.text, (row.subject, row.source, row.event_id))):
        return True
    return matcher.event(orjson.loads(row.body))


async def _texts(services: Services, matcher: Matcher, counts: Counter[str]) -> None:
    """What receivers answered: texts of others' deliveries in which what is erased is replaced."""
    attempts = tenant_scope(select(DeliveryAttempt), DeliveryAttempt, matcher.tenant)
    async with services.db.begin() as session:
        async for row in await session.stream_scalars(attempts):
            response, error = _clean(row.response, matcher), _clean(row.error, matcher)
            if (response, error) != (row.response, row.error):
                row.response, row.error = response or "", error
                counts["delivery_attempts"] += 1
        failed = tenant_scope(select(Delivery), Delivery, matcher.tenant)
        async for held in await session.stream_scalars(failed.where(Delivery.last_error.is_not(None))):
            if (cleaned := _clean(held.last_error, matcher)) != held.last_error:
                held.last_error = cleaned
                counts["deliveries"] += 1


def _clean(text: str | None, matcher: Matcher) -> str | None:
    return matcher.json_text(text) if text else text


async def _registers(session: AsyncSession, matcher: Matcher, assets: set[UUID]) -> int:
    statement = tenant_scope(delete(EgressRegister), EgressRegister, matcher.tenant)
    if not matcher.everything:
        texts: set[str | None] = set()
        for column in (EgressRegister.tag, EgressRegister.member):
            held = tenant_scope(select(column), EgressRegister, matcher.tenant).distinct()
            texts.update(await session.scalars(held))
        named = [text for text in texts if text and matcher.text(text)]
        statement = statement.where(
            EgressRegister.asset.in_(assets)
            | EgressRegister.member.in_(named)
            | EgressRegister.tag.in_(named)
        )
    removed = await session.execute(statement)
    return int(getattr(removed, "rowcount", 0))


async def _commands(session: AsyncSession, matcher: Matcher) -> int:
    changed = 0
    for row in await session.scalars(tenant_scope(select(Command), Command, matcher.tenant)):
        args: Any = matcher.clean(row.args)
        detail: Any = matcher.clean(row.detail)
        if args is not row.args or detail is not row.detail:
            row.args, row.detail = ({}, None) if matcher.everything else (args, detail)
            changed += 1
    return changed


async def _write_anew(services: Services) -> None:
    """New files for every table that may have held it; then the write-ahead log goes on in a new one."""
    uri = services.settings.postgres_uri.get_secret_value()
    connection = await psycopg.AsyncConnection.connect(uri, autocommit=True, application_name="lily-erase")
    async with connection:
        await connection.execute(sql.SQL("SET lock_timeout = {}").format(sql.Literal(_LOCK_TIMEOUT)))
        for table in _TABLES:
            await connection.execute(sql.SQL("VACUUM (FULL, ANALYZE) {}").format(sql.Identifier(table)))
        try:
            await connection.execute("CHECKPOINT")
            await connection.execute("SELECT pg_switch_wal()")
            await connection.execute("CHECKPOINT")
        except psycopg.errors.InsufficientPrivilege:
            log.warning("the write-ahead log is left to PostgreSQL: no privilege to end it")
