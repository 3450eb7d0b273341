"""The one way onto the change topics: checked events and the request's raw record, together or not claimed at all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from prometheus_client import Counter

from lily_api.erasures.stopping import ErasedError
from lily_common.acceptor import Acceptor
from lily_common.envelope import AcceptedEvent
from lily_common.erasing.stoplist import Matcher
from lily_common.errors import FieldError, InvalidInputError, LilyError
from lily_common.kafka import Producer, Record
from lily_common.metrics import INGEST_ACCEPTED, INGEST_REJECTED

#: By which door an event came in: a label of the ingest metrics.
Way = Literal["events", "webhook", "openlineage"]
#: How long Kafka may take before the answer is 503, in seconds: below the 5 s after which OpenLineage clients give up.
ACK_SECONDS = 4.0


class Checked(NamedTuple):
    """What became of one item: `event` when it is good, else `error`."""

    item: Any
    event: AcceptedEvent | None
    error: LilyError | None


@lru_cache(maxsize=16)
def _accepted(way: str, lane: str) -> Counter:
    return INGEST_ACCEPTED.labels(way, lane)


def count_accepted(way: Way, events: Sequence[AcceptedEvent]) -> None:
    """Count events that Kafka has acknowledged, by lane."""
    bulk = sum([event.lane == "bulk" for event in events])
    if bulk:
        _accepted(way, "bulk").inc(bulk)
    if len(events) > bulk:
        _accepted(way, "priority").inc(len(events) - bulk)


def rejected(way: Way, error: LilyError, count: int = 1) -> None:
    """Count refused items by reason."""
    INGEST_REJECTED.labels(way, error.code).inc(count)


def check(acceptor: Acceptor, item: Any, erased: Matcher | None = None) -> Checked:
    """One item against the envelope, its type's payload and what the tenant had `erased`."""
    if not isinstance(item, dict):
        message = "an event has to be a JSON object"
        return Checked(item, None, InvalidInputError(message, [FieldError("", message)]))
    if erased is not None and erased.event(item):
        return Checked(item, None, ErasedError())
    try:
        return Checked(item, acceptor(item), None)
    except InvalidInputError as error:
        return Checked(item, None, error)


def check_all(
    tenant: str, events: Sequence[Any], request_id: str, caller: str, erased: Matcher | None = None
) -> list[AcceptedEvent]:
    """All of these events, which stand or fall together. Raises the first error."""
    if erased is not None and any(map(erased.event, events)):
        raise ErasedError
    acceptor = Acceptor(tenant, datetime.now(UTC), request_id, caller)
    return [acceptor(event) for event in events]


class Intake:
    """Publishes for one API process."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def publish(
        self,
        way: Way,
        raw: Record,
        events: Sequence[AcceptedEvent],
        *,
        seconds: float = ACK_SECONDS,
    ) -> None:
        """Return when all in-sync replicas have the raw record and every event.

        Raises UnavailableError (503): then nothing may be claimed, though some may have arrived; the client sends
        all again, and what arrived is dropped by its identity.
        """
        await self._producer.send([raw, *events], seconds=seconds)
        count_accepted(way, events)
