"""Batches of `lily.replays`, one after the other, until told to stop; what cannot be read goes to the dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import psycopg
from confluent_kafka import Message

from lily_common.erasing.stoplist import StopList
from lily_common.logs import get_logger
from lily_connectors.egress.connections import Connection, close_quietly, connect
from lily_connectors.egress.notices import UnreadableNoticeError
from lily_connectors.egress.reader import NoticeReader
from lily_connectors.egress.replays import Replayed, ReplayLane, read

log = get_logger(__name__)
_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)

#: (message, reason) -> on the dead-letter topic when it returns
Refuse = Callable[[Message, str], Awaitable[None]]
#: What was erased, as of now: a replay that was on its way when it happened brings nothing of it back.
Erased = Callable[[], Awaitable[StopList]]


async def consume(
    uri: str,
    reader: NoticeReader,
    lane: ReplayLane,
    *,
    refuse: Refuse,
    erased: Erased,
    stop: asyncio.Event,
) -> None:
    """Read until `stop`. While PostgreSQL or Kafka is away the batch at hand is tried again."""
    connection: Connection | None = None
    reader.start()
    try:
        while not stop.is_set():
            messages = await reader.read()
            if not messages:
                continue
            stopped = await erased()
            batch: list[Replayed] = []
            for message in messages:
                try:
                    replayed = read(message, datetime.now(UTC))
                    if not stopped.stops(replayed.notice.tenant, replayed.notice.event):
                        batch.append(replayed)
                except UnreadableNoticeError as wrong:
                    await refuse(message, str(wrong))
            connection = await _take_surely(uri, connection, lane, batch, stop)
            reader.done(messages)
    finally:
        await close_quietly(connection)


async def _take_surely(
    uri: str, connection: Connection | None, lane: ReplayLane, batch: list[Replayed], stop: asyncio.Event
) -> Connection | None:
    failures = 0
    while batch:
        try:
            if connection is None or connection.closed:
                connection = await connect(uri, "replays")
            await lane.take(connection, batch)
        except (psycopg.OperationalError, ConnectionError) as away:
            log.warning("replayed events not taken yet", error=str(away), events=len(batch))
            await close_quietly(connection)
            connection = None
            if stop.is_set():
                raise
            await asyncio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
            failures += 1
            continue
        break
    return connection
