"""A tenant's PostgreSQL database, as far as Lily touches it itself: the publication, and the slot when it has to go.

The publication is Lily's to make, not Debezium's. Debezium would do it on the connection that it then replicates on; the
server keeps in that session how the tables look *now*, decodes older rows by it, and crashes as a whole where a column's
type has changed between (PostgreSQL 18.6, segmentation fault in the walsender).

A slot that nobody reads keeps the server from ever recycling its log, until its disk is full.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import stamina
from psycopg import sql

from lily_connectors.debezium.names import slot_name
from lily_connectors.vendors.debezium_postgres.config import Config

_CONNECT_SECONDS = 8
_STATEMENT_MS = 20_000
_IN_USE = psycopg.errors.ObjectInUse
#: Tables that are there; a partition is read through its parent.
_FOUND = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
  AND (n.nspname || '.' || c.relname = ANY(%s) OR n.nspname = ANY(%s))
"""
Table = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SourceDatabase:
    """The database of one source. `address` is the one that was judged; `name` is that of slot and publication."""

    name: str
    config: Config
    address: str | None

    @classmethod
    def of(cls, config: Config, connector_id: str, address: str | None) -> SourceDatabase:
        return cls(slot_name(config.source, connector_id), config, address)

    @property
    def by_hand(self) -> str:
        """What the database's owner can do where Lily cannot."""
        where = f"{self.config.database} at {self.config.host}:{self.config.port}"
        return (
            f"In {where} run: SELECT pg_drop_replication_slot('{self.name}'); "
            f"DROP PUBLICATION IF EXISTS {self.name};"
        )

    async def publish(self, before_adding: Callable[[], Awaitable[None]]) -> list[str]:
        """Have the publication hold the tables that are wanted and exist; returns those that do not exist.

        `before_adding` is called when tables are about to be added to a publication that was there. Raises psycopg.Error.
        """
        async with self._connected() as connection:
            wanted = await self._found(connection)
            held = await self._published(connection)
            if held is None:
                create = sql.SQL(
                    "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)"
                )
                if wanted:
                    await connection.execute(create.format(sql.Identifier(self.name), _listed(wanted)))
            elif wanted and held != wanted:
                if wanted - held:
                    await before_adding()
                alter = sql.SQL("ALTER PUBLICATION {} SET TABLE {}")
                await connection.execute(alter.format(sql.Identifier(self.name), _listed(wanted)))
        names = {f"{schema}.{table}" for schema, table in wanted}
        schemas = {schema for schema, _ in wanted}
        return [
            name
            for name in self.config.tables
            if (name.partition(".")[0] not in schemas if name.endswith(".*") else name not in names)
        ]

    async def drop(self) -> None:
        """Drop slot and publication; no error when they are gone already. Raises psycopg.Error."""
        async with self._connected() as connection:
            # The server notices only after a moment that the task's connection has gone.
            async for attempt in stamina.retry_context(on=_IN_USE, attempts=None, timeout=8.0, wait_max=1.0):
                with attempt:
                    await connection.execute(
                        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                        " WHERE slot_name = %s AND database = current_database()",
                        [self.name],
                    )
            await connection.execute(
                sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(self.name))
            )

    async def _found(self, connection: psycopg.AsyncConnection[Any]) -> set[Table]:
        schemas = [name.partition(".")[0] for name in self.config.tables if name.endswith(".*")]
        return set(await (await connection.execute(_FOUND, [self.config.tables, schemas])).fetchall())

    async def _published(self, connection: psycopg.AsyncConnection[Any]) -> set[Table] | None:
        found = await connection.execute("SELECT FROM pg_publication WHERE pubname = %s", [self.name])
        if await found.fetchone() is None:
            return None
        query = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s"
        return set(await (await connection.execute(query, [self.name])).fetchall())

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with await psycopg.AsyncConnection.connect(
            host=self.config.host,
            hostaddr=self.address,
            port=self.config.port,
            dbname=self.config.database,
            user=self.config.user,
            password=self.config.password.get_secret_value(),
            sslmode=self.config.tls,
            sslrootcert="system" if self.config.tls == "verify-full" else None,
            connect_timeout=_CONNECT_SECONDS,
            options=f"-c statement_timeout={_STATEMENT_MS}",
            application_name="lily-capture",
            autocommit=True,
        ) as connection:
            yield connection


def _listed(tables: Iterable[Table]) -> sql.Composable:
    return sql.SQL(", ").join(sql.Identifier(*table) for table in sorted(tables))
