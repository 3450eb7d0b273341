"""One call of a vendor: whose connector, is it signed, what does it say, has Kafka got it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import Request

from lily_api.connectors import repository
from lily_api.context import request_id
from lily_api.erasures.stopping import Erased, ErasedError
from lily_api.ingest.raw import raw_record, withheld
from lily_api.ingest.service import Intake, check_all, rejected
from lily_api.services import Services
from lily_common.errors import ConflictError, LilyError, NotFoundError, UnauthenticatedError, UnavailableError
from lily_connectors import registry
from lily_connectors.inbound import InboundRequest, normalise
from lily_connectors.models import Connector
from lily_connectors.secrets import open_sealed, valid

#: Vendors give up after 3 s (Slack, Monte Carlo); these are the parts of it that waiting may take.
LOOKUP_SECONDS = 1.0
ACK_SECONDS = 1.8


@dataclass(frozen=True, slots=True)
class Received:
    """What became of a call: the vendor's event type, how many changes it made."""

    event_type: str
    accepted: int


async def receive(services: Services, connector_id: str, request: Request, body: bytes) -> Received:
    """Verify, normalise, publish.

    Raises NotFoundError (404), ConflictError (409, paused), UnauthenticatedError (401), MalformedError (400),
    InvalidInputError (422) and UnavailableError (503).
    """
    now = datetime.now(UTC)
    connector = await _connector(services, connector_id)
    module = registry.kind(connector.kind).inbound
    call = InboundRequest(
        connector_id=connector.id,
        config=registry.kind(connector.kind).config.model_validate(connector.config),
        headers=dict(request.headers),
        body=body,
        received=now,
    )
    held = open_sealed(services.secrets, connector.tenant, connector.id, connector.secrets)
    try:
        module.verify(call, valid(held, now))
    except UnauthenticatedError as error:
        rejected("webhook", error)
        raise
    intake = Intake(services.producer)
    raw = raw_record(
        request_id=request_id.get(),
        tenant=connector.tenant,
        path=request.url.path,
        headers=request.scope["headers"],
        body=body,
        received=now,
        secret_headers=module.SECRET_HEADERS,
    )
    try:
        event_type, events = normalise(module, call)
        caller, erased = f"connector:{connector.id}", services.get(Erased).of(connector.tenant)
        checked = check_all(connector.tenant, events, request_id.get(), caller, erased)
    except LilyError as error:
        rejected("webhook", error)
        raw = withheld(raw) if isinstance(error, ErasedError) else raw
        await intake.publish("webhook", raw, (), seconds=ACK_SECONDS)
        raise
    await intake.publish("webhook", raw, checked, seconds=ACK_SECONDS)
    return Received(event_type, len(checked))


async def _connector(services: Services, connector_id: str) -> Connector:
    try:
        async with asyncio.timeout(LOOKUP_SECONDS), services.db() as session:
            connector = await repository.called(session, connector_id)
    except TimeoutError:
        raise UnavailableError("the database did not answer in time, try again", retry_after=2) from None
    if connector is None or not registry.kind(connector.kind).webhook:
        raise NotFoundError("there is no such webhook")
    if connector.status != "active":
        raise ConflictError("the connector is paused", code="connector-paused")
    return connector
