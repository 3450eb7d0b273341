"""What belongs to the request at hand and is needed far from its endpoint: the request id."""

from __future__ import annotations

from contextvars import ContextVar

#: Id of the request being answered, as in the `X-Request-Id` header; empty outside of a request.
request_id: ContextVar[str] = ContextVar("lily_request_id", default="")
