"""Goes through kept databases: at once when a tag or a policy changes, and now and then to find what others changed.

A round is made by one process at a time (an advisory lock). Each process follows the notices by itself: a change that
another's round came too early for is carried out by the next one, which finds the lock free.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api import audit
from lily_api.auth.principal import Principal
from lily_api.capture.addresses import judged_address, problem
from lily_api.capture.words import shown
from lily_api.enforcement.databases import repository
from lily_api.enforcement.databases.models import RESTORED, EnforcedDatabase
from lily_api.enforcement.feed import Enforcement
from lily_api.services import Services
from lily_common.errors import LilyError
from lily_common.logs import get_logger
from lily_common.policies.decide import Decision, decide
from lily_common.policies.model import Who
from lily_connectors.enforcing.keeper import Report, keep, restore
from lily_connectors.enforcing.wanted import Name
from lily_connectors.secrets import open_sealed
from lily_connectors.ssrf import Guard
from lily_connectors.vendors.postgres_policies import enforce
from lily_connectors.vendors.postgres_policies.config import Config

log = get_logger(__name__)
#: Between two rounds of a database that nothing asks for.
PATROL_SECONDS = 60.0
#: A round that could not be made is made again after so long.
RETRY_SECONDS = 5.0
_LIST_SECONDS = 1.0
_GLANCE_SECONDS = 0.02
#: How long a request waits for its change to be carried out.
WAIT_SECONDS = 15.0
_CONNECT_SECONDS = 5
_STATEMENT_MS = 20_000
_KEPT_DRIFT = 20
_EXPECTED = (psycopg.Error, OSError, LilyError, ValueError, ValidationError)


class Rounds:
    """One process's part in it; lives in the event loop."""

    def __init__(self, services: Services, enforcement: Enforcement) -> None:
        self._services = services
        self._enforcement = enforcement
        self._rows: dict[str, EnforcedDatabase] = {}
        self._due: dict[str, float] = {}
        self._running: dict[str, asyncio.Task[str | None]] = {}

    async def run(self) -> None:
        """For ever, until cancelled."""
        listed = float("-inf")
        changes = (-1, -1)
        while True:
            now = time.monotonic()
            try:
                if now - listed > _LIST_SECONDS:
                    await self._list()
                    listed = now
            except (SQLAlchemyError, OSError) as away:
                log.warning("kept databases wait for PostgreSQL", error=str(away)[:300])
                listed = now
            seen = (self._enforcement.tags.changes, self._enforcement.declared.changes)
            if seen != changes:
                changes = seen
                self._due = dict.fromkeys(self._due, now)
            for connector_id, at in list(self._due.items()):
                row = self._rows.get(connector_id)
                if row is not None and at <= now and connector_id not in self._running:
                    self._start(row.tenant, connector_id)
            await asyncio.sleep(_GLANCE_SECONDS)

    async def now(self, tenant: str, connector_id: str) -> str | None:
        """Make a round now; what stands in the way. The round goes on when the caller no longer waits."""
        before = self._running.get(connector_id)
        if before is not None:
            await asyncio.wait({before}, timeout=WAIT_SECONDS)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                return await asyncio.shield(self._start(tenant, connector_id))
        except TimeoutError:
            return "it is being carried out"

    async def close(self) -> None:
        for task in list(self._running.values()):
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _list(self) -> None:
        async with self._services.db() as session:
            rows = await repository.active(session)
        held = self._rows
        self._rows = {row.connector_id: row for row in rows}
        self._enforcement.keeps_databases = bool(rows)
        now = time.monotonic()
        self._due = {
            name: self._due.get(name, now) if name in held and held[name].revision == row.revision else now
            for name, row in self._rows.items()
        }

    def _start(self, tenant: str, connector_id: str) -> asyncio.Task[str | None]:
        running = self._running.get(connector_id)
        if running is not None and not running.done():
            return running
        self._due[connector_id] = time.monotonic() + PATROL_SECONDS
        task = asyncio.create_task(self._round(tenant, connector_id), name=f"keep-{connector_id}")
        self._running[connector_id] = task

        def forget(done: asyncio.Task[str | None]) -> None:
            del self._running[connector_id]
            if connector_id not in self._rows:
                self._due.pop(connector_id, None)
            failed = None if done.cancelled() else done.exception()
            if failed is not None:
                log.warning("a round broke", connector=connector_id, error=str(failed)[:300])
            if failed is not None or (not done.cancelled() and done.result() is not None):
                soon = time.monotonic() + RETRY_SECONDS
                if connector_id in self._due:
                    self._due[connector_id] = min(self._due[connector_id], soon)

        task.add_done_callback(forget)
        return task

    async def _round(self, tenant: str, connector_id: str) -> str | None:
        """What stands in the way; None when the database is as wanted."""
        async with self._services.db.begin() as session:
            if not await repository.try_lock(session, connector_id):
                return "another process is at it"
            row = await repository.get(session, tenant, connector_id)
            if row is None:
                return None
            session.expunge(row)
            password = None
            try:
                config, password = self._opened(row)
                if row.wanted == RESTORED:
                    async with await self._connected(config) as connection:
                        await restore(connection, enforce.scope(config))
                    await repository.remove(session, row)
                    return None
                if not await self._enforcement.is_current():
                    why = "tags may be out of date: nothing was changed"
                    await repository.looked(session, row, problem=why)
                    return why
                async with await self._connected(config) as connection:
                    report = await keep(connection, enforce.scope(config), self._decider(tenant, config))
            except _EXPECTED as failed:
                told = shown(str(failed), password)
                log.warning("a database is not kept", connector=connector_id, problem=told)
                await repository.looked(session, row, problem=told)
                return told
            await self._told(session, row, report)
            return None

    async def _told(self, session: AsyncSession, row: EnforcedDatabase, report: Report) -> None:
        held: dict[str, Any] = {
            "problems": report.problems,
            "drift": (report.drift + list(row.report.get("drift", [])))[:_KEPT_DRIFT],
        }
        await repository.looked(session, row, problem=None, report=held)
        for action, lines in (("enforcement.change", report.changes), ("enforcement.drift", report.drift)):
            if lines:
                log.info(action, connector=row.connector_id, lines=len(lines))
                lily = Principal(tenant=row.tenant, subject="lily", scopes=frozenset())
                detail = {"lines": [line[:500] for line in lines[:100]], "of": len(lines)}
                await audit.record(session, lily, action, f"connector:{row.connector_id}", detail)

    def _opened(self, row: EnforcedDatabase) -> tuple[Config, str]:
        (held,) = open_sealed(self._services.secrets, row.tenant, row.connector_id, row.secrets)
        return Config.model_validate({**row.config, "password": held.value}), held.value

    async def _connected(self, config: Config) -> psycopg.AsyncConnection[Any]:
        guard = Guard(self._services.settings.egress_allow_networks)
        try:
            address = await judged_address(guard, config.host, config.port)
        except OSError as refused:
            raise OSError(problem(refused, config.host)) from refused
        return await psycopg.AsyncConnection.connect(
            host=config.host,
            hostaddr=address,
            port=config.port,
            dbname=config.database,
            user=config.user,
            password=config.password.get_secret_value(),
            sslmode=config.tls,
            sslrootcert="system" if config.tls == "verify-full" else None,
            connect_timeout=_CONNECT_SECONDS,
            options=f"-c statement_timeout={_STATEMENT_MS} -c lock_timeout={_STATEMENT_MS}",
            application_name="lily-enforcement",
            autocommit=True,
        )

    def _decider(self, tenant: str, config: Config) -> Any:
        view = self._enforcement.tags
        policies = self._enforcement.declared.of(tenant).policies

        def decided(table: Name, column: str | None, who: Who) -> Decision:
            return decide(policies, view.tags(tenant, enforce.asset(config, table, column)), who)

        return decided


@asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    """For as long as the API runs."""
    rounds = Rounds(services, services.get(Enforcement))
    services.put(rounds)
    task = asyncio.create_task(rounds.run(), name="kept-databases")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await rounds.close()
