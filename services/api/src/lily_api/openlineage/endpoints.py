"""`POST /api/v1/lineage` and `POST /api/v1/lineage/batch` (OpenLineage's own OpenAPI)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from lily_api.auth.permissions import EventsWrite
from lily_api.auth.principal import Principal
from lily_api.bodies import read_body
from lily_api.context import request_id
from lily_api.erasures.stopping import Erased, ErasedError
from lily_api.ingest.parsing import JSON, MAX_ITEMS, decode_json, media_type
from lily_api.ingest.raw import raw_record, withheld
from lily_api.ingest.service import Intake, rejected
from lily_api.openlineage.schemas import EXAMPLE, BatchAnswer, LineageAnswer
from lily_api.openlineage.service import Normalised, normalise_all
from lily_api.services import Services, ServicesDep
from lily_common.errors import FieldError, InvalidInputError, LilyError, UnsupportedMediaTypeError

router = APIRouter(prefix="/api/v1/lineage", tags=["openlineage"])

_EVENT = {"type": "object", "description": "A RunEvent, JobEvent or DatasetEvent of OpenLineage"}
_ONE = {"required": True, "content": {JSON: {"schema": _EVENT, "example": EXAMPLE}}}
_MANY = {
    "required": True,
    "content": {
        JSON: {"schema": {"type": "array", "items": _EVENT, "maxItems": MAX_ITEMS}, "example": [EXAMPLE]}
    },
}


@router.post(
    "",
    status_code=201,
    summary="Send an OpenLineage event",
    response_model=LineageAnswer,
    openapi_extra={"requestBody": _ONE},
)
async def send_lineage(request: Request, principal: EventsWrite, lily: ServicesDep) -> Response:
    """Job, run, datasets, columns and lineage become assets and edges. The same event again changes nothing."""
    (result,) = await _take(request, principal, lily, many=False)
    if result.error is not None:
        raise result.error
    return JSONResponse({"status": "accepted", "changes": len(result.changes)}, 201)


@router.post(
    "/batch",
    summary="Send OpenLineage events",
    response_model=BatchAnswer,
    responses={422: {"model": BatchAnswer, "description": "No event of the batch is accepted"}},
    openapi_extra={"requestBody": _MANY},
)
async def send_lineage_batch(request: Request, principal: EventsWrite, lily: ServicesDep) -> Response:
    """Each event on its own: `failed_events` names those that were refused, and the others are kept."""
    results = await _take(request, principal, lily, many=True)
    failed = [
        {"index": index, "reason": result.error.detail, "retriable": False}
        for index, result in enumerate(results)
        if result.error is not None
    ]
    good = len(results) - len(failed)
    status = "success" if not failed else "partial_success" if good else "failure"
    summary = {
        "received": len(results),
        "successful": good,
        "failed": len(failed),
        "retriable": 0,
        "non_retriable": len(failed),
    }
    answer = {"status": status, "summary": summary, "failed_events": failed}
    return JSONResponse(answer, 422 if failed and not good else 200)


async def _take(request: Request, principal: Principal, lily: Services, *, many: bool) -> list[Normalised]:
    """The request's events, normalised, checked and acknowledged by Kafka; the raw request in any case."""
    now = datetime.now(UTC)
    body = await read_body(request)
    raw = raw_record(
        request_id=request_id.get(),
        tenant=principal.tenant,
        path=request.url.path,
        headers=request.scope["headers"],
        body=body,
        received=now,
    )
    intake = Intake(lily.producer)
    try:
        events = _events(request.headers.get("content-type", ""), body, many=many)
    except LilyError as error:
        rejected("openlineage", error)
        await intake.publish("openlineage", raw, ())
        raise
    erased = lily.get(Erased).of(principal.tenant)
    results = await normalise_all(principal, events, request_id.get(), len(body), erased)
    if any(isinstance(result.error, ErasedError) for result in results):
        raw = withheld(raw)
    await intake.publish("openlineage", raw, [change for result in results for change in result.changes])
    for result in results:
        if result.error is not None:
            rejected("openlineage", result.error)
    return results


def _events(content_type: str, body: bytes, *, many: bool) -> list[Any]:
    kind = media_type(content_type)
    if kind != JSON:
        raise UnsupportedMediaTypeError(f"Content-Type has to be {JSON}, not {kind[:80] or 'absent'}")
    decoded = decode_json(body)
    if not many:
        return [decoded]
    if not isinstance(decoded, list) or len(decoded) > MAX_ITEMS:
        message = f"the body has to be a JSON array of at most {MAX_ITEMS} events"
        raise InvalidInputError(message, [FieldError("body", message)])
    return decoded
