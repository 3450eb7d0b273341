"""`/v1/connectors` and `/v1/connector-kinds`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse

from lily_api import paging
from lily_api.auth.permissions import ConnectorsRead, ConnectorsWrite
from lily_api.capture import status as capture_status
from lily_api.connectors import service
from lily_api.connectors.schemas import (
    ConnectorCreate,
    ConnectorCreated,
    ConnectorPatch,
    ConnectorRemoved,
    ConnectorStatus,
    ConnectorView,
    KindList,
    KindView,
    SecretRotate,
)
from lily_api.enforcement.databases import service as enforced
from lily_api.schemas import ObjectId, Page
from lily_api.services import Services, ServicesDep
from lily_connectors import registry
from lily_connectors.models import Connector

router = APIRouter(prefix="/v1", tags=["connectors"])

KindFilter = Annotated[
    str | None, Query(max_length=64, pattern=r"^[a-z0-9-]+$", description="Only this kind")
]


def _view(lily: Services, connector: Connector) -> ConnectorView:
    view = ConnectorView.model_validate(connector)
    view.webhook_url = service.webhook_url(lily, connector)
    return view


def _shown(lily: Services, connector: Connector, secret: str | None, response: Response) -> ConnectorCreated:
    response.headers["Cache-Control"] = "no-store"
    return ConnectorCreated(**_view(lily, connector).model_dump(), secret=secret)


@router.get("/connector-kinds", summary="List the kinds of connectors")
async def list_kinds(_principal: ConnectorsRead) -> KindList:
    """What can be connected, with the JSON Schema of each kind's configuration."""
    items = [
        KindView(
            kind=kind.name,
            title=kind.title,
            summary=kind.summary,
            direction=kind.direction,
            webhook=kind.webhook,
            event_types=kind.event_types(),
            needs_secret=kind.config.needs_secret,
            config_schema=kind.schema(),
        )
        for kind in registry.kinds().values()
    ]
    return KindList(items=items)


@router.post("/connectors", status_code=201, summary="Create a connector")
async def create_connector(
    principal: ConnectorsWrite, lily: ServicesDep, body: ConnectorCreate, response: Response
) -> ConnectorCreated:
    """The answer holds the URL that the vendor has to call and, this once, the secret that it has to sign with."""
    connector, secret = await service.create(lily, principal, body)
    return _shown(lily, connector, secret, response)


@router.get("/connectors", summary="List connectors")
async def list_connectors(
    principal: ConnectorsRead,
    lily: ServicesDep,
    kind: KindFilter = None,
    limit: paging.Limit = 100,
    cursor: paging.Cursor = None,
) -> Page[ConnectorView]:
    """Newest first."""
    rows = await service.list_page(lily, principal, kind, paging.decode_time_id(cursor), limit)
    return Page[ConnectorView](
        items=[_view(lily, row) for row in rows],
        next_cursor=paging.encode_time_id(rows[-1].created_at, rows[-1].id) if len(rows) == limit else None,
    )


@router.get("/connectors/{connector_id}", summary="Read a connector")
async def get_connector(
    principal: ConnectorsRead, lily: ServicesDep, connector_id: ObjectId
) -> ConnectorView:
    return _view(lily, await service.get(lily, principal, connector_id))


@router.get("/connectors/{connector_id}/status", summary="Read how a connector does")
async def get_status(principal: ConnectorsRead, lily: ServicesDep, connector_id: ObjectId) -> ConnectorStatus:
    """For a source of change data: what Kafka Connect says of it and of its tasks, with the errors that ended them."""
    connector = await service.get(lily, principal, connector_id)
    kept = await enforced.status(lily, connector)
    return kept if kept is not None else await capture_status.read(lily, connector)


@router.patch("/connectors/{connector_id}", summary="Change a connector")
async def patch_connector(
    principal: ConnectorsWrite, lily: ServicesDep, connector_id: ObjectId, body: ConnectorPatch
) -> ConnectorView:
    """Rename, reconfigure, pause or resume. The webhook of a paused connector answers 409.

    A source of change data keeps its password when `config` has none. Where Kafka Connect is away, the change is carried
    out when it is back; `/status` tells.
    """
    return _view(lily, await service.patch(lily, principal, connector_id, body))


@router.post(
    "/connectors/{connector_id}/rotate-secret", status_code=201, summary="Rotate a connector's secret"
)
async def rotate_secret(
    principal: ConnectorsWrite,
    lily: ServicesDep,
    connector_id: ObjectId,
    body: SecretRotate,
    response: Response,
) -> ConnectorCreated:
    """A new secret; the old one stays valid for `grace_seconds`."""
    connector, secret = await service.rotate_secret(lily, principal, connector_id, body)
    return _shown(lily, connector, secret, response)


@router.delete(
    "/connectors/{connector_id}",
    status_code=204,
    summary="Delete a connector",
    response_model=None,
    responses={
        200: {"model": ConnectorRemoved, "description": "A source of change data: what is left of it"}
    },
)
async def delete_connector(
    principal: ConnectorsWrite, lily: ServicesDep, connector_id: ObjectId
) -> JSONResponse | None:
    """Its webhook answers 404 from now on; what it brought stays.

    A source of change data is taken from Kafka Connect and its replication slot dropped; the answer says what is left to
    do where the database does not let Lily.
    """
    removed = await service.remove(lily, principal, connector_id)
    return JSONResponse(removed.model_dump()) if removed is not None else None
