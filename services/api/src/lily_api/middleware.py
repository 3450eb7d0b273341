"""What happens to every request before its route: an id, a measure, a place in the house, a limit on its body.

Plain ASGI, because Starlette's BaseHTTPMiddleware costs more than all of this together.
"""

from __future__ import annotations

import re
import secrets
import time
from typing import Any

import structlog
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lily_api import problems
from lily_api.context import request_id
from lily_common.config import Settings
from lily_common.errors import LilyError, MalformedError, PayloadTooLargeError, UnavailableError
from lily_common.metrics import HTTP_REQUESTS, HTTP_SECONDS

_ID = re.compile(r"^[A-Za-z0-9._:-]{1,128}$")
#: Probes have to be answered even when the house is full.
_ALWAYS = frozenset({"/healthz", "/readyz", "/metrics"})
_LENGTH = re.compile(r"^[0-9]{1,18}$")


def install(app: FastAPI, settings: Settings) -> None:
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes)
    app.add_middleware(Admission, limit=settings.max_concurrency)
    app.add_middleware(RequestFrame)


class RequestFrame:
    """Outermost: gives the request its id, measures it, and turns what nobody caught into a bare 500."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        chosen = given if _ID.match(given) else secrets.token_hex(12)
        token = request_id.set(chosen)
        structlog.contextvars.bind_contextvars(request_id=chosen)
        started = time.perf_counter()
        status = 0

        async def framed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", chosen.encode())]
            await send(message)

        try:
            await self._app(scope, receive, framed)
        except Exception as error:
            if status:
                raise  # the answer is under way: only cutting it off tells the client
            found = error if isinstance(error, LilyError) else problems.unexpected(error)
            await problems.response(found, scope)(scope, receive, framed)
        finally:
            _measure(scope, status, time.perf_counter() - started)
            structlog.contextvars.unbind_contextvars("request_id")
            request_id.reset(token)


def _measure(scope: Scope, status: int, seconds: float) -> None:
    route: Any = scope.get("route")
    template = getattr(route, "path", "unmatched")
    HTTP_REQUESTS.labels(scope["method"], template, status or 499).inc()
    HTTP_SECONDS.labels(scope["method"], template).observe(seconds)


class Admission:
    """At most `limit` requests at once in this process; more are told at once to come back (503, Retry-After).

    Not 429: some OpenLineage clients drop the event on it. An event stream gives its place back once it is open.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _ALWAYS:
            await self._app(scope, receive, send)
            return
        if self._inside >= self._limit:
            raise UnavailableError("too many requests at once, try again", code="overloaded")
        self._inside += 1
        holding = True

        def leave() -> None:
            nonlocal holding
            if holding:
                holding = False
                self._inside -= 1

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                content_type = Headers(raw=message.get("headers", [])).get("content-type", "")
                if content_type.startswith("text/event-stream"):
                    leave()
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            leave()


class BodyLimit:
    """Refuses a body above `limit` bytes: by its Content-Length at once, else when that many have arrived."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        stated = Headers(scope=scope).get("content-length")
        if stated is not None:
            if not _LENGTH.match(stated):
                raise MalformedError("Content-Length is not a number")
            if int(stated) > self._limit:
                raise self._too_large()
        arrived = 0

        async def counted() -> Message:
            nonlocal arrived
            message = await receive()
            if message["type"] == "http.request":
                arrived += len(message.get("body", b""))
                if arrived > self._limit:
                    raise self._too_large()
            return message

        await self._app(scope, counted, send)

    def _too_large(self) -> PayloadTooLargeError:
        return PayloadTooLargeError(f"the body is larger than {self._limit} bytes")
