"""What travels about deliveries."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from lily_api.schemas import Output

DeliveryStatus = Literal["pending", "delivered", "dead", "cancelled"]


class EventName(Output):
    """The event's identity and type."""

    id: str = Field(examples=["a1b2"])
    source: str = Field(examples=["urn:example:catalogue"])
    type: str = Field(examples=["lily.classification.attached"])


class Hops(Output):
    """When the event passed each hop of its way; null where it did not or is not known."""

    accepted_at: datetime | None = Field(
        description="The API accepted it (before Kafka); null for a replay, whose event says when it was"
    )
    noticed_at: datetime | None = Field(
        description="Fan-out wrote it to `lily.notices` (Kafka's time, in ms)"
    )
    consumed_at: datetime | None = Field(description="Egress read it")
    committed_at: datetime | None = Field(description="State and delivery were committed in PostgreSQL")
    sent_at: datetime | None = Field(description="The first attempt began")
    finished_at: datetime | None = Field(description="It was delivered, or given up")


class DeliveryView(Output):
    id: UUID = Field(description="Also the header `webhook-id`, the same at every attempt")
    subscription_id: str = Field(examples=["sub_0f3a5c7e9b1d2f4a6c8e0b2d"])
    replay_id: str | None = Field(
        None, description="The command that replays it; null for what is told as it happens"
    )
    status: DeliveryStatus
    event: EventName
    asset: str = Field(examples=["postgres://shop-db:5432/shop/public/customers/email"])
    transition: str = Field(
        description="What changed; `replayed` for an event of the past", examples=["attached"]
    )
    attempts: int = Field(examples=[1])
    next_attempt_at: datetime | None = Field(
        description="Null when done, or when it waits behind an earlier one or for its subscription to be resumed"
    )
    last_status_code: int | None = Field(examples=[204])
    last_error: str | None
    hops: Hops


class AttemptView(Output):
    number: int = Field(examples=[1])
    sent_at: datetime
    duration_ms: float = Field(examples=[12.7])
    ok: bool
    status_code: int | None = Field(examples=[204])
    error: str | None = Field(examples=["timeout: no answer in time (at most 15 s)"])
    response: str = Field(description="Start of the answer, at most 1 KB")


class DeliveryDetail(DeliveryView):
    body: dict[str, Any] = Field(description="The CloudEvent as it is sent")
    attempt_log: list[AttemptView]
