"""What passes between the parts of the worker: deliveries in hand, and how their attempts went."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from lily_connectors.contract import OutboundNotice, Outcome


class Mode(StrEnum):
    """What the dispatcher can do with a delivery about to be written."""

    #: Its lane is in memory: it goes behind.
    QUEUE = "queue"
    #: Nothing of its lane is in memory: it is taken, unless an earlier one waits in the table.
    FRESH = "fresh"
    #: No room, or the lane has rows in the table: it waits there and is claimed in its turn.
    PARK = "park"
    #: The subscription is paused: it waits in the table without a time.
    HOLD = "hold"


@dataclass(slots=True)
class Job:
    """A delivery in this worker's hands."""

    id: UUID
    position: int
    subscription_id: str
    lane: UUID
    notice: OutboundNotice
    accepted_at: datetime | None
    committed_at: datetime | None = None
    first_sent_at: datetime | None = None
    attempts: int = 0
    tries: int = 0


class Status(StrEnum):
    """What an attempt made of its delivery; also the label of the metric."""

    DELIVERED = "delivered"
    RETRY = "retry"
    DEAD = "dead"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Result:
    """One attempt of a job. With `RETRY`, `next_attempt_at` is set, and `kept` says whether the job stays in memory."""

    job: Job
    number: int
    tries: int
    status: Status
    outcome: Outcome
    sent_at: datetime
    duration_ms: float
    next_attempt_at: datetime | None = None
    kept: bool = False
