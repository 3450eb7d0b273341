"""The inbound half of a connector: from a vendor's webhook to Lily's events.

A vendor's `inbound.py` is a module of this shape:

    HANDLERS: dict[str, Handler]                  event type -> pure function; the keys are what is supported
    SECRET_HEADERS: frozenset[str]                lower-case names of headers that must not be archived
    def verify(request, secrets) -> None          raises UnauthenticatedError; runs before anything is parsed
    def event_type(payload, request) -> str       the key into HANDLERS
    def new_secret() -> str                       a fresh secret in the vendor's form (optional)

A handler returns CloudEvents (dicts) without a tenant; the API puts each through `lily_common.envelope.accept`.
An empty list is an answer too: a vendor's test ping changes nothing and is right.
"""

from __future__ import annotations

import hashlib
import json
import secrets as random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from lily_common.errors import FieldError, InvalidInputError, MalformedError
from lily_connectors.config import ConnectorConfig

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InboundRequest:
    """A vendor's call. `headers` have lower-case names, `body` is as it was signed, `received` is aware UTC."""

    connector_id: str
    config: ConnectorConfig
    headers: Mapping[str, str]
    body: bytes
    received: datetime

    @property
    def source(self) -> str:
        """The CloudEvents source of what this connector tells."""
        return f"urn:lily:connector:{self.connector_id}"

    def body_hash(self) -> str:
        """An event id for vendors that send none: the same delivery again has the same."""
        return hashlib.sha256(self.body).hexdigest()


Handler = Callable[[Any, InboundRequest], list[Event]]


class InboundModule(Protocol):
    """What the API calls; see this module's docstring."""

    HANDLERS: Mapping[str, Handler]
    SECRET_HEADERS: frozenset[str]

    def verify(self, request: InboundRequest, secrets: Sequence[str]) -> None: ...

    def event_type(self, payload: Any, request: InboundRequest) -> str: ...


def parse_json(body: bytes) -> Any:
    """The body as JSON by Python's own reader. Raises MalformedError (400).

    Vendors that sign a re-serialised body need the numbers and the key order that this reader gives.
    """
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as broken:
        raise MalformedError(f"the body is not JSON: {broken}") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def normalise(module: InboundModule, request: InboundRequest) -> tuple[str, list[Event]]:
    """(event type, events) of a verified request. Raises InvalidInputError (422) for what is not supported."""
    payload = parse_json(request.body)
    kind = module.event_type(payload, request)
    handler = module.HANDLERS.get(kind)
    if handler is None:
        supported = ", ".join(sorted(module.HANDLERS))
        error = FieldError("type", f"unsupported event type '{kind[:100]}'; supported: {supported}")
        raise InvalidInputError(error.message, [error], code="unsupported-event-type")
    return kind, handler(payload, request)


def token_secret() -> str:
    """A secret of 256 random bits as URL-safe text."""
    return random.token_urlsafe(32)


def wrong(field: str, message: str) -> InvalidInputError:
    """The error for one wrong field of a vendor's payload."""
    return InvalidInputError(f"{field}: {message}", [FieldError(field, message)])
