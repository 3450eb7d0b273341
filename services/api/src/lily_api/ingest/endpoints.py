"""`POST /v1/events`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from lily_api.auth.permissions import EventsWrite
from lily_api.bodies import read_body
from lily_api.context import request_id
from lily_api.erasures.stopping import Erased, ErasedError
from lily_api.ingest import answers
from lily_api.ingest.parsing import BATCHED, JSON, STRUCTURED, parse
from lily_api.ingest.raw import raw_record, withheld
from lily_api.ingest.schemas import EXAMPLE, Accepted, BatchResult, CloudEvent
from lily_api.ingest.service import Intake, check, rejected
from lily_api.services import ServicesDep
from lily_common.acceptor import Acceptor
from lily_common.errors import LilyError

router = APIRouter(prefix="/v1/events", tags=["events"])

_ONE: dict[str, Any] = CloudEvent.model_json_schema()
_MANY: dict[str, Any] = {"type": "array", "items": _ONE, "maxItems": 1000}
_BODY = {
    "required": True,
    "content": {
        STRUCTURED: {"schema": _ONE, "example": EXAMPLE},
        BATCHED: {"schema": _MANY, "example": [EXAMPLE]},
        JSON: {"schema": {"oneOf": [_ONE, _MANY]}, "example": EXAMPLE},
    },
}
_ANSWER = {"application/json": {"schema": {"$ref": "#/components/schemas/BatchResult"}}}


@router.post(
    "",
    status_code=202,
    summary="Send events",
    response_model=Accepted | BatchResult,
    responses={
        207: {"model": BatchResult, "description": "Some items of the batch are accepted, some rejected"},
        422: {"description": "The event, or every item of the batch, is rejected", "content": _ANSWER},
    },
    openapi_extra={"requestBody": _BODY},
)
async def send_events(request: Request, principal: EventsWrite, lily: ServicesDep) -> Response:
    """One CloudEvent or a batch of up to 1,000; structured or binary mode, optionally gzip.

    Answered once all in-sync replicas of Kafka have the request and every accepted event. Each item of a batch has
    its own verdict: a bad one costs no good one. The same (source, id) again is accepted and changes nothing.
    """
    now = datetime.now(UTC)
    body = await read_body(request)
    headers = request.scope["headers"]
    raw = raw_record(
        request_id=request_id.get(),
        tenant=principal.tenant,
        path=request.url.path,
        headers=headers,
        body=body,
        received=now,
    )
    intake = Intake(lily.producer)
    try:
        parsed = parse(request.headers.get("content-type", ""), headers, body)
    except LilyError as error:
        rejected("events", error)
        await intake.publish("events", raw, ())
        raise
    acceptor = Acceptor(principal.tenant, now, request_id.get(), principal.subject)
    erased = lily.get(Erased).of(principal.tenant)
    checked = [check(acceptor, item, erased) for item in parsed.items]
    if any(isinstance(result.error, ErasedError) for result in checked):
        raw = withheld(raw)
    await intake.publish("events", raw, [result.event for result in checked if result.event is not None])
    for result in checked:
        if result.error is not None:
            rejected("events", result.error)
    if parsed.batch:
        return answers.batch(checked)
    only = checked[0]
    if only.event is None:
        assert only.error is not None
        raise only.error
    return answers.accepted(only.event)
