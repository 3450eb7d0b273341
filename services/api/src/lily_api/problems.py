"""Every error leaves as problem details (RFC 9457), whoever raised it; none tells more than the caller may know."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pymongo.errors import ConnectionFailure
from sqlalchemy import exc as sql
from starlette.exceptions import HTTPException
from starlette.responses import Response

from lily_common.errors import (
    ConflictError,
    FieldError,
    InvalidInputError,
    LilyError,
    MalformedError,
    UnavailableError,
    UnsupportedMediaTypeError,
)
from lily_common.logs import get_logger

log = get_logger(__name__)
MEDIA_TYPE = "application/problem+json"
_TITLES = {404: ("not-found", "Not found"), 405: ("method-not-allowed", "Method not allowed")}
_MAX_FIELDS = 50
_MAX_TEXT = 500


def response(error: LilyError, scope: Mapping[str, Any]) -> Response:
    """The answer to a request that ended in `error`."""
    raw: bytes = scope.get("raw_path") or b""
    instance = raw.decode("ascii", "replace")[:2048]
    # json escapes what UTF-8 cannot hold, so that no input breaks the answer to itself.
    body = json.dumps(error.problem(instance)).encode()
    return Response(body, error.status, headers=error.headers, media_type=MEDIA_TYPE)


def from_validation(errors: Sequence[Any], content_type: str, content_encoding: str) -> LilyError:
    """What FastAPI's request validation found, in Lily's terms."""
    if any(error.get("type") == "json_invalid" for error in errors):
        reason = str(errors[0].get("ctx", {}).get("error", ""))[:_MAX_TEXT]
        return MalformedError(f"the body is not JSON: {reason}", code="malformed-json")
    whole_body = any(tuple(error.get("loc", ())) == ("body",) for error in errors)
    if whole_body and content_encoding not in ("", "identity"):
        return UnsupportedMediaTypeError("this route accepts no compressed body")
    if whole_body and content_type and "json" not in content_type:
        return UnsupportedMediaTypeError("the body has to be application/json")
    fields = [
        FieldError(
            ".".join(str(part) for part in error.get("loc", ()))[:_MAX_TEXT],
            str(error.get("msg", ""))[:_MAX_TEXT],
        )
        for error in errors[:_MAX_FIELDS]
    ]
    noun = "field" if len(errors) == 1 else "fields"
    return InvalidInputError(f"the request has {len(errors)} wrong {noun}", fields)


def from_http(error: HTTPException, content_encoding: str) -> LilyError:
    """Starlette's own errors; one that wraps a LilyError (raised while the body was read) is that error."""
    cause = error.__cause__
    if isinstance(cause, LilyError):
        return cause
    if error.status_code == 400 and content_encoding not in ("", "identity"):
        return UnsupportedMediaTypeError("this route accepts no compressed body")
    code, title = _TITLES.get(error.status_code, ("http-error", "Request refused"))
    if error.status_code == 400:
        code, title = "malformed-body", "Malformed request"
    return LilyError(str(error.detail), code, title, error.status_code, headers=dict(error.headers or {}))


def from_database(error: Exception) -> LilyError:
    """Database errors: a value that cannot be stored is the caller's, a lost connection is worth another try."""
    if isinstance(error, sql.IntegrityError):
        return ConflictError("it conflicts with what exists already")
    if isinstance(error, sql.DataError) or isinstance(getattr(error, "orig", None), UnicodeError):
        return InvalidInputError("a value cannot be stored (NUL characters, or out of range)")
    if isinstance(error, sql.OperationalError | sql.InterfaceError | sql.TimeoutError):
        log.warning("PostgreSQL is not answering", error=str(error)[:_MAX_TEXT])
        return UnavailableError("the database is not answering, try again")
    return unexpected(error)


def unexpected(error: Exception) -> LilyError:
    """Log it whole, tell the caller nothing but that it happened."""
    log.error("unhandled error", exc_info=error)
    return LilyError("an unexpected error, logged under the request id of this answer")


def _allowed(routers: Sequence[APIRouter], path: str) -> str:
    """Every method of that path (RFC 9110, 10.2.1); Starlette names those of the first route alone."""
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    methods = {method for route in routes if route.path_regex.match(path) for method in route.methods or ()}
    return ", ".join(sorted(methods))


def install(app: FastAPI, routers: Sequence[APIRouter]) -> None:
    """Register the handlers. `routers` tell which methods a path has."""

    async def on_lily(request: Request, error: Exception) -> Response:
        assert isinstance(error, LilyError)
        return response(error, request.scope)

    async def on_validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        headers = request.headers
        found = from_validation(
            error.errors(), headers.get("content-type", ""), headers.get("content-encoding", "")
        )
        return response(found, request.scope)

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 405:
            error.headers = {"Allow": _allowed(routers, request.url.path)}
        return response(from_http(error, request.headers.get("content-encoding", "")), request.scope)

    async def on_database(request: Request, error: Exception) -> Response:
        return response(from_database(error), request.scope)

    async def on_mongo(request: Request, error: Exception) -> Response:
        log.warning("MongoDB is not answering", error=str(error)[:_MAX_TEXT])
        return response(UnavailableError("the mirror is not answering, try again"), request.scope)

    app.add_exception_handler(LilyError, on_lily)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(sql.SQLAlchemyError, on_database)
    app.add_exception_handler(ConnectionFailure, on_mongo)
