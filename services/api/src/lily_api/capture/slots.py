"""What Debezium leaves in a PostgreSQL database, and taking it down: the replication slot and the publication.

A slot that nobody reads keeps the server from ever recycling its log, until its disk is full.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
import stamina
from psycopg import sql

from lily_connectors.debezium.names import slot_name
from lily_connectors.vendors.debezium_postgres.config import Config

_CONNECT_SECONDS = 8
_IN_USE = psycopg.errors.ObjectInUse


@dataclass(frozen=True, slots=True)
class Slot:
    """One source's slot. `address` is the one that was judged."""

    name: str
    config: Config
    address: str | None

    @classmethod
    def of(cls, config: Config, connector_id: str, address: str | None) -> Slot:
        return cls(slot_name(config.source, connector_id), config, address)

    @property
    def by_hand(self) -> str:
        """What the database's owner can do where Lily cannot."""
        where = f"{self.config.database} at {self.config.host}:{self.config.port}"
        return (
            f"In {where} run: SELECT pg_drop_replication_slot('{self.name}'); "
            f"DROP PUBLICATION IF EXISTS {self.name};"
        )

    async def drop(self) -> None:
        """Drop slot and publication; no error when they are gone already. Raises psycopg.Error."""
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
            application_name="lily-capture",
            autocommit=True,
        ) as connection:
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
