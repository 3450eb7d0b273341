"""`/v1/deliveries`."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import APIRouter, Path, Query

from lily_api import paging
from lily_api.auth.permissions import DeliveriesRead, DeliveriesWrite
from lily_api.deliveries import service
from lily_api.deliveries.repository import Row, Wanted
from lily_api.deliveries.schemas import (
    AttemptView,
    DeliveryDetail,
    DeliveryStatus,
    DeliveryView,
    EventName,
    Hops,
)
from lily_api.schemas import Page, Text
from lily_api.services import ServicesDep

router = APIRouter(prefix="/v1/deliveries", tags=["deliveries"])
DeliveryId = Annotated[UUID, Path(description="The delivery's id, as in the header `webhook-id`")]


def _fields(row: Row) -> dict[str, Any]:
    delivery, notice = row
    return {
        "id": delivery.id,
        "subscription_id": delivery.subscription_id,
        "replay_id": delivery.replay_id,
        "status": delivery.status,
        "event": EventName(id=notice.event_id, source=notice.source, type=notice.type),
        "asset": notice.subject,
        "transition": notice.transition,
        "attempts": delivery.attempts,
        "next_attempt_at": delivery.next_attempt_at if delivery.status == "pending" else None,
        "last_status_code": delivery.last_status_code,
        "last_error": delivery.last_error,
        "hops": Hops(
            accepted_at=notice.accepted_at,
            noticed_at=notice.noticed_at,
            consumed_at=notice.consumed_at,
            committed_at=delivery.committed_at,
            sent_at=delivery.first_sent_at,
            finished_at=delivery.finished_at,
        ),
    }


@router.get("", summary="List deliveries")
async def list_deliveries(
    principal: DeliveriesRead,
    lily: ServicesDep,
    *,
    limit: paging.Limit = 100,
    cursor: paging.Cursor = None,
    subscription: Annotated[Text | None, Query(max_length=64, description="Id of a subscription")] = None,
    status: Annotated[DeliveryStatus | None, Query()] = None,
    asset: Annotated[Text | None, Query(max_length=2048, description="Qualified name")] = None,
    event_id: Annotated[Text | None, Query(max_length=1024, description="Id of an event")] = None,
    replay_id: Annotated[
        Text | None, Query(max_length=64, description="Id of the command that replays")
    ] = None,
) -> Page[DeliveryView]:
    """Newest first. Finished deliveries are kept for 30 days, dead ones until they are replayed."""
    before = paging.decode(cursor, int)
    wanted = Wanted(subscription, status, asset, event_id, replay_id)
    rows = await service.list_page(lily, principal, wanted, before[0] if before else None, limit)
    return Page[DeliveryView](
        items=[DeliveryView(**_fields(row)) for row in rows],
        next_cursor=paging.encode(rows[-1][0].position) if len(rows) == limit else None,
    )


@router.get("/{delivery_id}", summary="Read a delivery with its attempts")
async def get_delivery(
    principal: DeliveriesRead, lily: ServicesDep, delivery_id: DeliveryId
) -> DeliveryDetail:
    row, attempts = await service.get(lily, principal, delivery_id)
    return DeliveryDetail(
        **_fields(row),
        body=orjson.loads(row[1].body),
        attempt_log=[AttemptView.model_validate(attempt) for attempt in attempts],
    )


@router.post("/{delivery_id}/retry", status_code=202, summary="Send a delivery again")
async def retry_delivery(
    principal: DeliveriesWrite, lily: ServicesDep, delivery_id: DeliveryId
) -> DeliveryView:
    """Now, under the same id, whatever became of it before."""
    return DeliveryView(**_fields(await service.retry(lily, principal, delivery_id)))
