"""`POST /webhooks/{connector_id}`."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from lily_api.bodies import read_body
from lily_api.schemas import ObjectId
from lily_api.services import ServicesDep
from lily_api.webhooks import service

router = APIRouter(prefix="/webhooks", tags=["webhooks"])

_BODY = {
    "required": True,
    "content": {"application/json": {"schema": {}, "example": {"type": "open_anomaly_incident"}}},
}


class WebhookAnswer(BaseModel):
    """What was understood. `accepted` is 0 for a test call."""

    event_type: str = Field(examples=["incident.opened"])
    accepted: int = Field(description="Changes that Kafka has acknowledged", examples=[1])


@router.post(
    "/{connector_id}",
    summary="Receive a vendor's call",
    responses={401: {"description": "The vendor's signature is missing, wrong or too old"}},
    openapi_extra={"requestBody": _BODY},
)
async def receive_webhook(connector_id: ObjectId, request: Request, lily: ServicesDep) -> WebhookAnswer:
    """No credential of Lily's: the vendor's signature over the body decides. The form is the vendor's own."""
    received = await service.receive(lily, connector_id, request, await read_body(request))
    return WebhookAnswer(event_type=received.event_type, accepted=received.accepted)
