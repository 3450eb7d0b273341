"""The one way onto the change topics: checked events and the request's raw record, together or not claimed at all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal

from prometheus_client import Counter

from lily_common.envelope import AcceptedEvent, accept
from lily_common.errors import FieldError, InvalidInputError, LilyError, UnavailableError
from lily_common.kafka import Producer, Record
from lily_common.metrics import INGEST_ACCEPTED, INGEST_REJECTED

#: By which door an event came in: a label of the ingest metrics.
Way = Literal["events", "webhook", "openlineage"]
#: How long Kafka may take before the answer is 503, in seconds: below the 5 s after which OpenLineage clients give up.
ACK_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of one item: `event` when it is good, else `error`."""

    item: Any
    event: AcceptedEvent | None
    error: LilyError | None


@lru_cache(maxsize=16)
def _accepted(way: str, lane: str) -> Counter:
    return INGEST_ACCEPTED.labels(way, lane)


def rejected(way: Way, error: LilyError, count: int = 1) -> None:
    """Count refused items by reason."""
    INGEST_REJECTED.labels(way, error.code).inc(count)


def check(tenant: str, item: Any, now: datetime, request_id: str) -> Checked:
    """One item against the envelope and its type's payload."""
    if not isinstance(item, dict):
        message = "an event has to be a JSON object"
        return Checked(item, None, InvalidInputError(message, [FieldError("", message)]))
    try:
        return Checked(item, accept(tenant, item, now, request_id=request_id), None)
    except InvalidInputError as error:
        return Checked(item, None, error)


def check_all(tenant: str, events: Sequence[Any], request_id: str) -> list[AcceptedEvent]:
    """All of these events, which stand or fall together. Raises the first error."""
    now = datetime.now(UTC)
    return [accept(tenant, event, now, request_id=request_id) for event in events]


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
        records = [raw, *(Record(event.topic, event.key, event.value) for event in events)]
        try:
            await asyncio.wait_for(self._producer.send(records), seconds)
        except TimeoutError:
            raise UnavailableError("Kafka did not acknowledge in time, try again", retry_after=2) from None
        bulk = sum(event.lane == "bulk" for event in events)
        if bulk:
            _accepted(way, "bulk").inc(bulk)
        if len(events) > bulk:
            _accepted(way, "priority").inc(len(events) - bulk)
