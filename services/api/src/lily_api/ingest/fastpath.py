"""`POST /v1/events` in its plain form, ahead of the framework: known caller, JSON, nothing wrong in it.

What a request costs is mostly the way to its endpoint (middleware, routing, dependencies), not the endpoint. This
recognises the requests that need none of that and answers them as the endpoint would. Anything else (a caller not seen
a moment ago, compression, binary mode, a single wrong item) goes the ordinary way, body and all, and is decided there:
this module can decline, never refuse. A test holds the answers of both ways equal.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from itertools import count
from time import perf_counter
from typing import Any, Final

import orjson
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from lily_api import plain, problems
from lily_api.auth.principal import Principal
from lily_api.auth.principal import Scope as Permission
from lily_api.erasures.stopping import Erased
from lily_api.ingest.parsing import BATCHED, JSON, MAX_ITEMS, STRUCTURED
from lily_api.ingest.raw import raw_record
from lily_api.ingest.service import ACK_SECONDS, count_accepted
from lily_api.services import Services
from lily_common.acceptor import Acceptor
from lily_common.envelope import AcceptedEvent
from lily_common.erasing.stoplist import Matcher
from lily_common.errors import InvalidInputError, LilyError
from lily_common.metrics import HTTP_REQUESTS, HTTP_SECONDS

PATH: Final = "/v1/events"
_TYPES: Final = {kind.encode(): kind for kind in (STRUCTURED, BATCHED, JSON)}
#: Requests of this way at once; more go the ordinary way, which knows how to say no.
_MAX_INSIDE: Final = 512
_SECONDS = HTTP_SECONDS.labels("POST", PATH)
_DONE = HTTP_REQUESTS.labels("POST", PATH, 202)
_FAILED = HTTP_REQUESTS.labels("POST", PATH, 503)


class EventsFirst(FastAPI):
    """The application, with the plain way for events in front of it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._inside = 0
        self._requests = count(1)
        self._process = secrets.token_hex(8)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            await super().__call__(scope, receive, send)
            return
        services: Services | None = getattr(self.state, "lily", None)
        if services is None or self._inside >= _MAX_INSIDE:
            await super().__call__(scope, receive, send)
            return
        started = perf_counter()
        found = _recognise(scope["headers"], services)
        if found is None:
            await super().__call__(scope, receive, send)
            return
        message = await receive()
        if message["type"] != "http.request" or message.get("more_body"):
            await super().__call__(scope, plain.replayed(message, receive), send)
            return
        principal, kind = found
        now = datetime.now(UTC)
        request_id = f"{self._process}{next(self._requests):08x}"
        body: bytes = message["body"]
        erased = services.get(Erased).of(principal.tenant)
        acceptor = Acceptor(principal.tenant, now, request_id, principal.subject)
        accepted = _accept(acceptor, kind, body, erased)
        if accepted is None:
            await super().__call__(scope, plain.replayed(message, receive), send)
            return
        events, single = accepted
        raw = raw_record(
            request_id=request_id,
            tenant=principal.tenant,
            path=PATH,
            headers=scope["headers"],
            body=body,
            received=now,
        )
        self._inside += 1
        try:
            await services.producer.send([raw, *events], seconds=ACK_SECONDS)
        except LilyError as error:
            _FAILED.inc()
            answer = problems.response(error, scope)
            answer.headers["x-request-id"] = request_id
            await answer(scope, receive, send)
            return
        finally:
            self._inside -= 1
        count_accepted("events", events)
        await plain.answer(send, 202, request_id, _body(events, single=single))
        _DONE.inc()
        _SECONDS.observe(perf_counter() - started)


def _recognise(headers: list[tuple[bytes, bytes]], services: Services) -> tuple[Principal, str] | None:
    """(caller, content type) when nothing in the headers needs the ordinary way."""
    credential, kind, length = b"", None, -1
    for name, value in headers:
        if name == b"authorization":
            if credential or value[:7] != b"Bearer ":
                return None
            credential = value[7:]
        elif name == b"content-type":
            kind = _TYPES.get(value)
        elif name == b"content-length":
            length = int(value) if value.isdigit() else -1
        elif name in plain.UNUSUAL or name[:3] == b"ce-":
            return None
    if kind is None or not 0 < length <= services.settings.max_body_bytes:
        return None
    principal = services.authenticator.remembered(credential.decode("latin-1"))
    if principal is None or not principal.tenant or not principal.allows(Permission.EVENTS_WRITE):
        return None
    return principal, kind


def _accept(
    acceptor: Acceptor, kind: str, body: bytes, erased: Matcher | None
) -> tuple[list[AcceptedEvent], bool] | None:
    """(every event of the body, whether it was one alone) when all are good."""
    try:
        decoded = orjson.loads(body)
        if erased is not None and (erased.everything or erased.value(decoded)):
            return None
        if type(decoded) is dict and kind != BATCHED:
            return [acceptor(decoded)], True
        if type(decoded) is not list or kind == STRUCTURED or len(decoded) > MAX_ITEMS:
            return None
        if any(type(item) is not dict for item in decoded):
            return None
        return [acceptor(item) for item in decoded], False
    except (orjson.JSONDecodeError, InvalidInputError):
        return None


def _body(events: list[AcceptedEvent], *, single: bool) -> bytes:
    if single:
        event = events[0]
        return orjson.dumps({"id": event.id, "status": "accepted", "lane": event.lane, "topic": event.topic})
    items = [
        {"index": index, "id": event.id, "status": "accepted", "lane": event.lane}
        for index, event in enumerate(events)
    ]
    return orjson.dumps({"accepted": len(items), "rejected": 0, "items": items})
