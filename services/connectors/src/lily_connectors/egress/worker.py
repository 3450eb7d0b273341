"""The egress worker: its parts wired, started, watched and stopped.

Any part that fails ends the worker with an error, and its supervisor starts a new one: what was in memory is in the table,
and what was not committed in Kafka is read again. Parts that wait for PostgreSQL or Kafka do so by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import orjson
import psycopg
from confluent_kafka import KafkaException, Message

from lily_common import metrics
from lily_common.config import Settings
from lily_common.crypto import SecretBox
from lily_common.erasing.feed import StopListFeed
from lily_common.erasing.stoplist import StopList
from lily_common.errors import LilyError, UnavailableError
from lily_common.events import DLQ_CHANGES_TOPIC, NOTICES_TOPIC, REPLAYS_TOPIC
from lily_common.heartbeats import is_heartbeat
from lily_common.kafka import Producer, Record
from lily_common.logs import get_logger
from lily_connectors.contract import Ports
from lily_connectors.egress import replaying, replays, upkeep
from lily_connectors.egress.book import Book
from lily_connectors.egress.claims import Claims
from lily_connectors.egress.connections import Connection, close_quietly, connect, open_session
from lily_connectors.egress.dispatcher import Dispatcher
from lily_connectors.egress.judge import Judge
from lily_connectors.egress.ledger import Ledger
from lily_connectors.egress.notices import Notice, UnreadableNoticeError, read
from lily_connectors.egress.reader import NoticeReader
from lily_connectors.egress.replays import ReplayLane
from lily_connectors.sinks.catalogue import sinks
from lily_connectors.sinks.http import GuardedHttp
from lily_connectors.sinks.kafka import TopicWriter
from lily_connectors.ssrf import Guard

log = get_logger(__name__)

GROUP = "lily-egress"
#: How long running attempts may take to end after SIGTERM, in seconds.
GRACE = 8.0
#: The table is looked at this often for what is due, in seconds; wake-ups come in between.
POLL_SECONDS = 1.0
UPKEEP_SECONDS = 15.0
PROBE_SECONDS = 5.0
REMOVAL_SECONDS = 3600.0
_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class _WayOut:
    """What carries deliveries: live ones, or replayed ones, which hold up nothing but themselves."""

    dispatcher: Dispatcher
    ledger: Ledger
    claims: Claims
    work: asyncio.Event


class Worker:
    """One egress process. `run` returns after `stop`, and raises when a part fails."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._uri = settings.postgres_uri.get_secret_value()
        self._stop = asyncio.Event()
        self._work = (asyncio.Event(), asyncio.Event())
        self._checks = {"postgres": "starting", "kafka": "starting"}
        self._reader = NoticeReader(settings.kafka_bootstrap, NOTICES_TOPIC, GROUP)
        self._replay_reader = NoticeReader(settings.kafka_bootstrap, REPLAYS_TOPIC, replays.GROUP)
        self._book = Book(SecretBox(settings.master_key_bytes))
        self._erased = StopListFeed(
            settings.kafka_bootstrap, settings.master_key_bytes, "lily-egress-erasures"
        )
        self._session: Connection | None = None
        self._owner = 0

    def stop(self) -> None:
        """Finish what is running and end."""
        self._stop.set()
        self._wake()

    def ready(self) -> dict[str, str]:
        """Checks for /readyz; called from another thread."""
        return dict(self._checks)

    async def run(self) -> None:
        sinks()  # imports every vendor's sink now, rather than at its first delivery
        await self._open()
        producer = Producer(self._settings.kafka_bootstrap)
        guard = Guard(self._settings.egress_allow_networks)
        writer = TopicWriter(producer, self._settings.kafka_bootstrap)
        try:
            async with GuardedHttp(guard) as http:
                ports = Ports(http, writer)
                live = self._way_out(ports, producer, replayed=False)
                past = self._way_out(ports, producer, replayed=True)
                await self._run_parts(live, past, producer, writer)
        finally:
            await self._reader.close()
            await self._replay_reader.close()
            await asyncio.to_thread(producer.close)
            await close_quietly(self._session)

    def _way_out(self, ports: Ports, producer: Producer, *, replayed: bool) -> _WayOut:
        work = self._work[replayed]
        ledger = Ledger(self._uri, self._owner, producer, work.set)
        if replayed:
            dispatcher = Dispatcher(
                self._book,
                ports,
                ledger,
                max_held=replays.HELD,
                max_concurrency=replays.CONCURRENCY,
            )
        else:
            dispatcher = Dispatcher(self._book, ports, ledger)
        ledger.attach(dispatcher)
        return _WayOut(dispatcher, ledger, Claims(self._owner, replayed=replayed), work)

    def _wake(self) -> None:
        """There may be something to claim."""
        for work in self._work:
            work.set()

    async def _open(self) -> None:
        """Wait for PostgreSQL and its tables, take a number, read all subscriptions."""
        failures = 0
        while True:
            try:
                self._session, self._owner = await open_session(self._uri)
                await self._book.load(self._session)
                without = await self._book.tenants_without_managed(self._session)
                await self._book.ensure_managed(self._session, without)
            except (psycopg.OperationalError, psycopg.errors.UndefinedTable) as away:
                self._checks["postgres"] = str(away).splitlines()[0]
                log.warning("PostgreSQL is not ready", error=self._checks["postgres"])
                await close_quietly(self._session)
                if self._stop.is_set():
                    raise
                await asyncio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1
                continue
            self._checks["postgres"] = "ok"
            log.info("worker started", number=self._owner)
            return

    async def _run_parts(self, live: _WayOut, past: _WayOut, producer: Producer, writer: TopicWriter) -> None:
        writing = {way: asyncio.create_task(way.ledger.run(), name="ledger") for way in (live, past)}
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._finish, writing)
            async with asyncio.TaskGroup() as parts:
                helpers = [
                    parts.create_task(self._listen((live.dispatcher, past.dispatcher)), name="listener"),
                    *(parts.create_task(self._claim(way), name="claims") for way in writing),
                    parts.create_task(self._upkeep(), name="upkeep"),
                    *(parts.create_task(_watch(task), name="ledger watch") for task in writing.values()),
                ]
                consuming = {
                    parts.create_task(self._consume(live.dispatcher, producer), name="consumer"),
                    parts.create_task(self._replay(past.dispatcher, producer, writer), name="replays"),
                }
                await asyncio.wait(consuming)
                for helper in helpers:
                    helper.cancel()

    async def _finish(self, writing: dict[_WayOut, asyncio.Task[None]]) -> None:
        log.info("stopping")
        await asyncio.gather(*(way.dispatcher.stop(GRACE) for way in writing))
        for way in writing:
            way.ledger.close()
        await asyncio.wait(writing.values(), timeout=GRACE)
        for task in writing.values():
            task.cancel()

    # --- parts ----------------------------------------------------------------------------------------------------

    async def _consume(self, dispatcher: Dispatcher, producer: Producer) -> None:
        """Batches from Kafka, judged and written, one after the other, until `stop`."""
        judge = Judge(self._book, dispatcher, self._owner, self._settings.url)
        self._reader.start()
        self._checks["kafka"] = "joining the consumer group"
        connection: Connection | None = None
        probe_due = 0.0
        clock = asyncio.get_running_loop().time
        try:
            while not self._stop.is_set():
                messages = await self._reader.read()
                if clock() >= probe_due or not self._reader.joined:
                    probe_due = clock() + PROBE_SECONDS
                    await self._probe_kafka()
                if messages:
                    connection = await self._judge_surely(judge, messages, producer, connection)
                    self._reader.done(messages)
        finally:
            await close_quietly(connection)

    async def _replay(self, dispatcher: Dispatcher, producer: Producer, writer: TopicWriter) -> None:
        """Events of the past, beside those of now, until `stop`."""
        lane = ReplayLane(self._book, dispatcher, writer, self._owner)

        async def refuse(message: Message, reason: str) -> None:
            await self._refuse(producer, message, reason)

        await replaying.consume(
            self._uri, self._replay_reader, lane, refuse=refuse, erased=self._stop_list, stop=self._stop
        )

    async def _probe_kafka(self) -> None:
        try:
            metrics.STREAM_LAG.labels("egress").set(await self._reader.probe())
        except KafkaException as away:
            self._checks["kafka"] = str(away)
        else:
            self._checks["kafka"] = "ok" if self._reader.joined else "joining the consumer group"

    async def _judge_surely(
        self, judge: Judge, messages: Sequence[Message], producer: Producer, connection: Connection | None
    ) -> Connection | None:
        """Judge the batch; while PostgreSQL is away, try again. What cannot be judged goes to the dead letters."""
        now = datetime.now(UTC)
        stop = await self._stop_list()
        batch: list[tuple[Message, Notice]] = []
        for message in messages:
            if is_heartbeat(message.key()):
                continue
            try:
                notice = read(message.value(), _timestamp(message), now)
                if not stop.stops(notice.tenant, notice.event):
                    batch.append((message, notice))
            except UnreadableNoticeError as wrong:
                await self._refuse(producer, message, str(wrong))
        failures = 0
        while True:
            try:
                if connection is None or connection.closed:
                    connection = await connect(self._uri, "judge")
                await self._judge_split(judge, connection, batch, producer)
            except psycopg.OperationalError as away:
                self._checks["postgres"] = str(away).splitlines()[0]
                log.warning("batch not written yet", error=self._checks["postgres"], notices=len(batch))
                await close_quietly(connection)
                connection = None
                if self._stop.is_set():
                    raise
                await asyncio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1
                continue
            self._checks["postgres"] = "ok"
            return connection

    async def _stop_list(self) -> StopList:
        """What was erased, as of now; waits until Kafka tells."""
        while True:
            try:
                return await asyncio.to_thread(self._erased.current)
            except UnavailableError as away:
                self._checks["kafka"] = str(away)
                if self._stop.is_set():
                    raise
                await asyncio.sleep(1.0)

    async def _judge_split(
        self, judge: Judge, connection: Connection, batch: list[tuple[Message, Notice]], producer: Producer
    ) -> None:
        """Judge the batch, and when PostgreSQL refuses its content, its halves, so that one bad notice costs no other."""
        if not batch:
            return
        try:
            partitions = [message.partition() or 0 for message, _ in batch]
            await judge.judge(connection, [notice for _, notice in batch], partitions)
        except psycopg.OperationalError:
            raise
        except psycopg.Error as refused:
            if len(batch) == 1:
                log.exception("notice refused by the database", id=batch[0][1].id)
                await self._refuse(producer, batch[0][0], f"{type(refused).__name__}: {refused}")
                return
            half = len(batch) // 2
            await self._judge_split(judge, connection, batch[:half], producer)
            await self._judge_split(judge, connection, batch[half:], producer)

    async def _refuse(self, producer: Producer, message: Message, reason: str) -> None:
        """Put a message that cannot be judged on the dead-letter topic; waits until Kafka has it."""
        metrics.STREAM_DLQ.labels("egress", "unreadable").inc()
        log.error("notice refused", reason=reason, partition=message.partition(), offset=message.offset())
        origin = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
        headers = [("reason", reason[:1000].encode()), ("origin", orjson.dumps(origin))]
        record = Record(DLQ_CHANGES_TOPIC, message.key(), message.value(), headers)
        while True:
            try:
                await producer.send([record])
            except LilyError as away:
                log.warning("dead letter not written yet", error=str(away))
                await asyncio.sleep(1.0)
                continue
            return

    async def _claim(self, way: _WayOut) -> None:
        """Deliveries from the table: when woken, and now and then."""
        connection: Connection | None = None
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await way.work.wait()
                way.work.clear()
                try:
                    if connection is None or connection.closed:
                        connection = await connect(self._uri, "claims", autocommit=True)
                    jobs = await way.claims.claim(connection, way.dispatcher.claimable())
                except psycopg.OperationalError as away:
                    log.warning("nothing claimed", error=str(away))
                    await close_quietly(connection)
                    connection = None
                    continue
                if jobs:
                    way.dispatcher.adopt(jobs)
                    way.work.set()
        finally:
            await close_quietly(connection)

    async def _listen(self, dispatchers: Sequence[Dispatcher]) -> None:
        """Changes of subscriptions and work put into the table by others. The session's end is the worker's end."""
        session = self._session
        assert session is not None
        reading = await connect(self._uri, "subscriptions", autocommit=True)
        try:
            await self._book.load(reading)  # what changed before this moment
            async for notification in session.notifies():
                what, _, which = notification.payload.partition(" ")
                if what == "subscriptions":
                    if reading.closed:
                        reading = await connect(self._uri, "subscriptions", autocommit=True)
                    await self._book.load(reading, [which])
                elif what == "retry":
                    for dispatcher in dispatchers:
                        dispatcher.retry_now(UUID(which))
                self._wake()
        finally:
            await close_quietly(reading)
        raise ConnectionError("the worker's session with PostgreSQL has ended")

    async def _upkeep(self) -> None:
        connection: Connection | None = None
        removal_due = 0.0
        clock = asyncio.get_running_loop().time
        try:
            while True:
                try:
                    if connection is None or connection.closed:
                        connection = await psycopg.AsyncConnection.connect(
                            self._uri, autocommit=True, application_name="lily-egress upkeep"
                        )
                    if await upkeep.wake_sleepers(connection):
                        self._wake()
                    if clock() >= removal_due:
                        removal_due = clock() + REMOVAL_SECONDS
                        settings = self._settings
                        await upkeep.remove_old(connection, settings.dedupe_days, settings.tombstone_days)
                except psycopg.Error as away:
                    log.warning("upkeep put off", error=str(away))
                    await close_quietly(connection)
                    connection = None
                await asyncio.sleep(UPKEEP_SECONDS)
        finally:
            await close_quietly(connection)


async def _watch(writing: asyncio.Task[None]) -> None:
    """Fail when the ledger does."""
    await asyncio.wait({writing})
    await writing
    raise RuntimeError("the ledger has ended")


def _timestamp(message: Message) -> int | None:
    kind, milliseconds = message.timestamp()
    return milliseconds if kind else None


async def serve(settings: Settings) -> None:
    """Run a worker until SIGTERM or SIGINT."""
    worker = Worker(settings)
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, worker.stop)
    server = metrics.serve(settings.metrics_port, worker.ready) if settings.metrics_port else None
    try:
        await worker.run()
    finally:
        if server is not None:
            server.shutdown()
