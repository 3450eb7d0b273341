"""PostgreSQL connections of the worker: psycopg itself, for pipelines; each is used by one task at a time."""

from __future__ import annotations

import contextlib
import secrets

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from lily_connectors.egress.models import NOTIFY_CHANNEL

Connection = AsyncConnection[TupleRow]

#: First key of the advisory lock that a living worker holds; the second is its number.
WORKER_LOCK = 0x4C650002
# All hot statements reach their rows by an index. A plan made while the tables were small must not outlive that.
_OPTIONS = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off"


async def connect(uri: str, name: str, *, autocommit: bool = False) -> Connection:
    """A connection for the hot statements. `name` shows in pg_stat_activity."""
    return await AsyncConnection.connect(
        uri,
        autocommit=autocommit,
        application_name=f"lily-egress {name}",
        options=_OPTIONS,
        connect_timeout=5,
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
        tcp_user_timeout=20_000,
    )


async def open_session(uri: str) -> tuple[Connection, int]:
    """The worker's session: (listening connection, worker number).

    The session holds an advisory lock on the number. While it does, the deliveries that the number owns are in hand; when
    the process dies the lock goes with its connection, at once, and any worker may claim them.
    """
    connection = await connect(uri, "session", autocommit=True)
    while True:
        number = secrets.randbelow(2**31 - 1) + 1
        cursor = await connection.execute("SELECT pg_try_advisory_lock(%s, %s)", (WORKER_LOCK, number))
        row = await cursor.fetchone()
        if row is not None and row[0]:
            break
    await connection.execute(f"LISTEN {NOTIFY_CHANNEL}")
    return connection, number


async def close_quietly(connection: Connection | None) -> None:
    """Close, whatever state it is in."""
    if connection is not None:
        with contextlib.suppress(Exception):
            await connection.close()
