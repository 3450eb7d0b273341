"""The lane of replays: events of the past from `lily.replays`, each to the one target that its replay names.

Beside the live lane and apart from it: its own consumer, its own dispatcher with tighter bounds, its own claims. It
reads no transition state and writes none: what is replayed is told again whatever is known of it. A subscription's
deliveries are rows like any others, marked with the replay; a topic is written right away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, LiteralString
from uuid import UUID

import orjson
from confluent_kafka import Message

from lily_common import metrics
from lily_common.events import FANOUT_TYPES, tenant_replay_topic
from lily_common.kafka import Record
from lily_common.logs import get_logger
from lily_common.names import message_key
from lily_connectors.egress.book import Book, Subscriber
from lily_connectors.egress.connections import Connection
from lily_connectors.egress.digests import asset_key, identity_key, replay_key, replay_lane_key
from lily_connectors.egress.dispatcher import Dispatcher
from lily_connectors.egress.judge import jobs_of
from lily_connectors.egress.notices import Notice, UnreadableNoticeError
from lily_connectors.egress.store import NewDelivery, give_back, read_generations, write_batch, written
from lily_connectors.egress.transitions import Transition, with_attributes
from lily_connectors.sinks.kafka import TopicWriter

log = get_logger(__name__)

GROUP = "lily-egress-replays"
#: Most attempts of one subscription's replays at a time, and most of their deliveries in memory.
CONCURRENCY = 4
HELD = 500
#: What a replayed event is called where a live one has its transition.
REPLAYED = "replayed"

_CANCELLED: LiteralString = "SELECT id FROM commands WHERE id = ANY(%s::text[]) AND status = 'cancelled'"


@dataclass(frozen=True, slots=True)
class Replayed:
    """One event of a replay. `target` is (`subscription` or `topic`, its id or name)."""

    replay_id: str
    target: tuple[str, str]
    selective: bool
    notice: Notice


def read(message: Message, consumed_at: datetime) -> Replayed:
    """The event in a message of `lily.replays`. Raises UnreadableNoticeError saying what is wrong."""
    headers = dict(message.headers() or ())
    try:
        replay_id, target = _text(headers, "replayid"), _target(_text(headers, "target"))
        body = message.value() or b""
        event = orjson.loads(body)
        tenant, source, event_id = event["tenantid"], event["source"], event["id"]
        timestamp_kind, milliseconds = message.timestamp()
        notice = Notice(
            tenant=tenant,
            source=source,
            id=event_id,
            type=event["type"],
            subject=event["subject"],
            version=event["stateversion"],
            register="",
            event=event,
            body=body if isinstance(body, bytes) else body.encode(),
            asset=asset_key(tenant, event["subject"]),
            identity=identity_key(tenant, source, event_id),
            accepted_at=None,
            noticed_at=datetime.fromtimestamp(milliseconds / 1000, UTC) if timestamp_kind else None,
            consumed_at=consumed_at,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise UnreadableNoticeError(f"{type(wrong).__name__}: {wrong}") from None
    return Replayed(replay_id, target, _text(headers, "filter") != "no", notice)


def _target(text: str) -> tuple[str, str]:
    kind, _, name = text.partition("/")
    if kind not in ("subscription", "topic") or not name:
        raise ValueError(f"target {text!r}")
    return kind, name


def _text(headers: dict[str, Any], name: str) -> str:
    value = headers[name]
    return value.decode() if isinstance(value, bytes) else str(value)


class ReplayLane:
    """Takes batches, one at a time, on the connection given."""

    def __init__(self, book: Book, dispatcher: Dispatcher, writer: TopicWriter, owner: int) -> None:
        self._book = book
        self._dispatcher = dispatcher
        self._writer = writer
        self._owner = owner
        #: Deliveries of a batch that failed: its commit may have been done all the same.
        self._doubtful: list[UUID] = []

    async def take(self, connection: Connection, batch: Sequence[Replayed]) -> None:
        """Return when topics have their events and the table its deliveries; those that are there already stay.

        Raises psycopg.Error or ConnectionError; the same batch can then be taken again.
        """
        cancelled = await self._cancelled(connection, batch)
        wanted = [replayed for replayed in batch if replayed.replay_id not in cancelled]
        await self._to_topics([replayed for replayed in wanted if replayed.target[0] == "topic"])
        await self._to_table(connection, [r for r in wanted if r.target[0] == "subscription"])
        metrics.NOTICES.labels(REPLAYED).inc(len(wanted))

    async def _cancelled(self, connection: Connection, batch: Sequence[Replayed]) -> set[str]:
        async with connection.transaction():
            found = await connection.execute(_CANCELLED, (list({r.replay_id for r in batch}),))
            cancelled = {row[0] for row in await found.fetchall()}
            generations = await read_generations(connection, {r.notice.tenant for r in batch})
            outdated = self._book.outdated(generations)
            if outdated:
                await self._book.load(connection, outdated)
        return cancelled

    async def _to_topics(self, batch: Sequence[Replayed]) -> None:
        if not batch:
            return
        outcome = await self._writer.append_all([_record(replayed) for replayed in batch])
        if not outcome.ok:
            raise ConnectionError(outcome.error)

    async def _to_table(self, connection: Connection, batch: Sequence[Replayed]) -> None:
        if self._doubtful:
            async with connection.transaction():
                await give_back(connection, self._doubtful, self._owner)
            self._doubtful = []
        deliveries = [delivery for replayed in batch if (delivery := self._delivery(replayed)) is not None]
        if not deliveries:
            return
        try:
            async with connection.pipeline(), connection.transaction():
                cursor = await write_batch(connection, [], {}, deliveries, self._owner)
        except BaseException:
            self._doubtful = [delivery.id for delivery in deliveries]
            self._dispatcher.doubt_plan()
            raise
        self._dispatcher.hand_over(jobs_of(deliveries, await written(cursor), datetime.now(UTC)))

    def _delivery(self, replayed: Replayed) -> NewDelivery | None:
        """The delivery to write; None when the subscription is gone, another tenant's, or does not want the event."""
        subscriber = self._book.get(replayed.target[1])
        notice = replayed.notice
        if subscriber is None or subscriber.tenant != notice.tenant or not _wanted(subscriber, replayed):
            return None
        lane = replay_lane_key(replayed.replay_id, subscriber.id, notice.subject)
        transition = Transition(
            name=REPLAYED,
            cause=notice,
            identity=replay_key(replayed.replay_id, "notice", notice.identity),
            source=notice.source,
            event_id=notice.id,
            event=notice.event | {"transition": REPLAYED},
            body=with_attributes(notice.body, {"transition": REPLAYED}),
        )
        return NewDelivery(
            id=replay_key(replayed.replay_id, subscriber.id, notice.identity),
            subscription_id=subscriber.id,
            lane=lane,
            transition=transition,
            mode=self._dispatcher.plan(subscriber, lane).value,
            replay_id=replayed.replay_id,
        )


def _wanted(subscriber: Subscriber, replayed: Replayed) -> bool:
    """As when it was live: only what a subscription can hear at all, and what this one asks for."""
    if not replayed.selective:
        return True
    return replayed.notice.type in FANOUT_TYPES and subscriber.wants(replayed.notice.event)


def _record(replayed: Replayed) -> Record:
    notice = replayed.notice
    topic = tenant_replay_topic(notice.tenant, replayed.target[1])
    delivery = replay_key(replayed.replay_id, topic, notice.identity)
    return Record(
        topic,
        message_key(notice.tenant, notice.subject).encode(),
        with_attributes(notice.body, {"transition": REPLAYED}),
        (
            ("content-type", b"application/cloudevents+json; charset=utf-8"),
            ("lily-delivery-id", str(delivery).encode()),
            ("replayid", replayed.replay_id.encode()),
        ),
    )
