"""The answers of `/v1/events`: one item, or one verdict per item of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from starlette.responses import Response

from lily_api.ingest.service import Checked
from lily_common.envelope import AcceptedEvent

_JSON = "application/json"
_MAX_ECHO = 1024


def accepted(event: AcceptedEvent) -> Response:
    body = {"id": event.id, "status": "accepted", "lane": event.lane, "topic": event.topic}
    return Response(orjson.dumps(body), 202, media_type=_JSON)


def batch(checked: Sequence[Checked]) -> Response:
    """202: all accepted; 207: some; 422: none. The body is the same form each time."""
    items: list[dict[str, Any]] = []
    good = 0
    for index, result in enumerate(checked):
        event = result.event
        if event is not None:
            good += 1
            items.append({"index": index, "id": event.id, "status": "accepted", "lane": event.lane})
        else:
            items.append(_rejection(index, result))
    bad = len(items) - good
    status = 202 if bad == 0 else 207 if good else 422
    return Response(
        orjson.dumps({"accepted": good, "rejected": bad, "items": items}), status, media_type=_JSON
    )


def _rejection(index: int, result: Checked) -> dict[str, Any]:
    stated = result.item.get("id") if isinstance(result.item, dict) else None
    problem = result.error.problem() if result.error is not None else None
    shown = stated[:_MAX_ECHO] if isinstance(stated, str) else None
    return {"index": index, "id": shown, "status": "rejected", "problem": problem}
