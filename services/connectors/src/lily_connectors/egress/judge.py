"""From a batch of messages to deliveries: repeats dropped, transitions found, subscribers matched, all of it written."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from lily_common import metrics
from lily_connectors.contract import OutboundNotice
from lily_connectors.egress.book import Book
from lily_connectors.egress.connections import Connection
from lily_connectors.egress.digests import delivery_key, lane_key
from lily_connectors.egress.dispatcher import Dispatcher
from lily_connectors.egress.explaining import explained
from lily_connectors.egress.jobs import Job
from lily_connectors.egress.notices import Notice
from lily_connectors.egress.store import NewDelivery, Written, give_back, read_known, write_batch, written
from lily_connectors.egress.transitions import Asset, Transition, Verdict, apply

#: Identities kept in memory: the hedged pair's second copy comes within seconds and then costs no query.
REMEMBERED = 100_000


class Remembered:
    """The identities judged last."""

    def __init__(self, size: int = REMEMBERED) -> None:
        self._size = size
        self._identities: OrderedDict[UUID, None] = OrderedDict()

    def __contains__(self, identity: object) -> bool:
        return identity in self._identities

    def add(self, identity: UUID) -> None:
        self._identities[identity] = None
        if len(self._identities) > self._size:
            self._identities.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A batch as it was decided: the notices that were new, the assets' state after them, what is to be told."""

    fresh: list[Notice]
    assets: Mapping[UUID, Asset]
    transitions: list[Transition]
    verdicts: dict[Verdict, int]


class Judge:
    """Judges batches, one at a time, on its own connection. `url` is the API's, for links to it."""

    def __init__(self, book: Book, dispatcher: Dispatcher, owner: int, url: str) -> None:
        self._book = book
        self._url = url
        self._dispatcher = dispatcher
        self._owner = owner
        self._remembered = Remembered()
        #: Deliveries of a batch that failed: its commit may have been done all the same.
        self._doubtful: list[UUID] = []

    async def judge(
        self, connection: Connection, notices: Sequence[Notice], partitions: Sequence[int]
    ) -> int:
        """Write what the batch means and hand its deliveries over; returns how many. Committed when it returns.

        Raises psycopg.Error; the same batch can then be judged again, whether it was written or not.
        """
        unseen = first_of_each(notices, self._remembered)
        repeats = len(notices) - len(unseen)
        if unseen:
            told = await self._write(connection, unseen, partitions)
        else:
            told = 0
        metrics.NOTICES.labels(Verdict.REPEAT.value).inc(repeats)
        return told

    async def _write(self, connection: Connection, notices: list[Notice], partitions: Sequence[int]) -> int:
        tenants = {notice.tenant for notice in notices if not self._book.has_managed(notice.tenant)}
        if tenants:
            async with connection.transaction():
                await self._book.ensure_managed(connection, tenants)
        if self._doubtful:
            async with connection.transaction():
                await give_back(connection, self._doubtful, self._owner)
            self._doubtful = []
        deliveries: list[NewDelivery] = []
        try:
            async with connection.pipeline(), connection.transaction():
                known = await read_known(connection, notices, partitions)
                outdated = self._book.outdated(known.generations)
                if outdated:
                    await self._book.load(connection, outdated)
                judgement = decide(
                    [notice for notice in notices if notice.identity not in known.seen], dict(known.assets)
                )
                deliveries = self._deliveries(judgement.transitions)
                cursor = await write_batch(
                    connection, judgement.fresh, judgement.assets, deliveries, self._owner
                )
        except BaseException:
            self._doubtful = [delivery.id for delivery in deliveries]
            self._dispatcher.doubt_plan()
            raise
        new = await written(cursor)
        self._dispatcher.hand_over(jobs_of(deliveries, new, datetime.now(UTC)))
        for notice in notices:
            self._remembered.add(notice.identity)
        for verdict, count in judgement.verdicts.items():
            metrics.NOTICES.labels(verdict.value).inc(count)
        metrics.NOTICES.labels(Verdict.REPEAT.value).inc(len(notices) - len(judgement.fresh))
        return len(new)

    def _deliveries(self, transitions: Sequence[Transition]) -> list[NewDelivery]:
        deliveries = []
        for bare in transitions:
            cause = bare.cause
            transition = explained(bare, self._book.policies(cause.tenant), self._url)
            for subscriber in self._book.matching(cause.tenant, transition.event):
                lane = lane_key(subscriber.id, cause.subject)
                mode = self._dispatcher.plan(subscriber, lane)
                key = delivery_key(subscriber.id, transition.identity)
                deliveries.append(NewDelivery(key, subscriber.id, lane, transition, mode.value))
        return deliveries


def first_of_each(notices: Sequence[Notice], judged: Container[UUID]) -> list[Notice]:
    """The notices whose identity is not yet `judged`, each once and at the place of its first copy.

    The place matters: the pair's second copy of an event may come after a later event of the same asset.
    """
    first: dict[UUID, Notice] = {}
    for notice in notices:
        if notice.identity not in judged:
            first.setdefault(notice.identity, notice)
    return list(first.values())


def decide(notices: list[Notice], assets: dict[UUID, Asset]) -> Judgement:
    """Apply the notices, in order, to the assets' state."""
    transitions: list[Transition] = []
    verdicts: dict[Verdict, int] = {}
    for notice in notices:
        asset = assets.setdefault(notice.asset, Asset())
        verdict, told = apply(asset, notice)
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
        transitions += told
    return Judgement(notices, assets, transitions, verdicts)


def jobs_of(deliveries: Sequence[NewDelivery], new: Sequence[Written], committed_at: datetime) -> list[Job]:
    """Those of the deliveries that were written as this worker's."""
    planned = {delivery.id: delivery for delivery in deliveries}
    jobs = []
    for row in new:
        if not row.owned:
            continue
        delivery = planned[row.id]
        transition = delivery.transition
        cause = transition.cause
        notice = OutboundNotice(
            str(row.id), cause.tenant, transition.type, cause.subject, transition.name, transition.body
        )
        jobs.append(
            Job(
                id=row.id,
                position=row.position,
                subscription_id=delivery.subscription_id,
                lane=delivery.lane,
                notice=notice,
                accepted_at=cause.accepted_at,
                committed_at=committed_at,
            )
        )
    return jobs
