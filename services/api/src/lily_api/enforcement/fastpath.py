"""Trino's questions in their plain form, ahead of the framework: known key in the URI, JSON, nothing wrong in it.

An engine waits for several answers in the planning of each query, and most of what one costs is the way to its endpoint
(middleware, routing, dependencies). Anything else than the plain form (a key not seen a moment ago, no key in the URI, a
question that cannot be read, no answer to be had) goes the ordinary way, body and all, and is decided there: this module
can decline, never refuse. A test holds the answers of both ways equal.
"""

from __future__ import annotations

import secrets
from itertools import count
from time import perf_counter
from typing import Any, Final
from urllib.parse import unquote_plus

import orjson
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from lily_api import plain
from lily_api.auth.principal import Principal
from lily_api.auth.principal import Scope as Permission
from lily_api.enforcement import service
from lily_api.services import Services
from lily_common.errors import LilyError
from lily_common.metrics import HTTP_REQUESTS, HTTP_SECONDS

PREFIX: Final = "/v1/opa/trino/"
_KEY: Final = b"key="


class AnswersFirst(FastAPI):
    """The application, with the plain way for an engine's questions in front of it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._questions = count(1)
        self._asked_by = secrets.token_hex(8)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX) or scope["method"] != "POST":
            await super().__call__(scope, receive, send)
            return
        started = perf_counter()
        path: str = scope["path"]
        answer = service.ANSWERS.get(path.removeprefix(PREFIX))
        services: Services | None = getattr(self.state, "lily", None)
        caller = _recognise(scope, services) if services is not None and answer is not None else None
        if services is None or answer is None or caller is None:
            await super().__call__(scope, receive, send)
            return
        message = await receive()
        body = None
        if message["type"] == "http.request" and not message.get("more_body"):
            body = await _answered(services, caller, answer, message["body"])
        if body is None:
            await super().__call__(scope, plain.replayed(message, receive), send)
            return
        await plain.answer(send, 200, f"{self._asked_by}{next(self._questions):08x}", body)
        HTTP_REQUESTS.labels("POST", path, 200).inc()
        HTTP_SECONDS.labels("POST", path).observe(perf_counter() - started)


def _recognise(scope: Scope, services: Services) -> Principal | None:
    """The caller when nothing in the request needs the ordinary way."""
    query: bytes = scope["query_string"]
    if not query.startswith(_KEY) or b"&" in query:
        return None
    length = -1
    for name, value in scope["headers"]:
        if name == b"content-length":
            length = int(value) if value.isdigit() else -1
        elif name in plain.UNUSUAL:
            return None
    if not 0 < length <= services.settings.max_body_bytes:
        return None
    principal = services.authenticator.remembered(unquote_plus(query[len(_KEY) :].decode("latin-1")))
    if principal is None or not principal.tenant or not principal.allows(Permission.POLICIES_ENFORCE):
        return None
    return principal


async def _answered(
    services: Services, caller: Principal, answer: service.Answer, body: bytes
) -> bytes | None:
    """The answer; None when the ordinary way has to say what is wrong."""
    try:
        given = service.question(body)
        enforcer = await service.enforcer(services, caller.tenant)
        return orjson.dumps({"result": answer(enforcer, given)})
    except (LilyError, *service.MALFORMED):
        return None
