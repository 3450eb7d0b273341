"""`/v1/stream`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from sse_starlette import EventSourceResponse

from lily_api.auth.permissions import StreamRead
from lily_api.erasures.stopping import Erased
from lily_api.schemas import Text
from lily_api.services import ServicesDep
from lily_api.stream import positions as ids
from lily_api.stream import service
from lily_api.stream.filters import StreamFilter, full_types
from lily_api.stream.hub import StreamHub

router = APIRouter(prefix="/v1/stream", tags=["stream"])

_EXAMPLE = """: open
id: 17-0-5-21
retry: 2000

id: 17-0-6-21
event: lily.classification.attached
data: {"specversion":"1.0","id":"8c1f","type":"lily.classification.attached","subject":"postgres://…","data":{…}}

: heartbeat
id: 17-0-6-21
"""
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events, for as long as the client listens (15 minutes at most)",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
    }
}


@router.get(
    "", summary="Follow the tenant's changes", response_class=EventSourceResponse, responses=_RESPONSES
)
async def stream(
    principal: StreamRead,
    lily: ServicesDep,
    *,
    last_event_id: Annotated[
        str | None, Header(max_length=4096, description="Id of the last event seen: goes on after it")
    ] = None,
    event_type: Annotated[
        list[Text],
        Query(alias="type", max_length=50, description="Only these types, with or without `lily.`"),
    ] = [],  # noqa: B006  (FastAPI copies it)
    tag: Annotated[list[Text], Query(max_length=50, description="Only changes of these tags")] = [],  # noqa: B006
    asset: Annotated[
        Text, Query(max_length=2048, description="Only assets whose qualified name begins with this")
    ] = "",
) -> EventSourceResponse:
    """Changes of effective state as they are found: tags, incidents, owners, descriptions, terms and deletions, each
    once and in order per asset, as on the tenant's Kafka topic. Begins now, or after `Last-Event-ID`, exactly: every
    frame carries an id, heartbeats too. Kafka keeps the events for seven days."""
    wanted = StreamFilter(full_types(event_type), frozenset(tag), asset)
    resume = ids.decode(last_event_id) if last_event_id else None
    hub = lily.get(StreamHub)
    positions = await hub.prepare(principal.tenant, resume)
    return EventSourceResponse(
        service.frames(hub, lily.get(Erased), principal.tenant, positions, wanted), ping=0
    )
