"""`/v1/commands`."""

from __future__ import annotations

from fastapi import APIRouter

from lily_api import paging
from lily_api.auth.permissions import CommandsRead, CommandsWrite
from lily_api.commands import service
from lily_api.commands.schemas import CommandCreate, CommandView
from lily_api.replays import service as replays
from lily_api.schemas import ObjectId, Page
from lily_api.services import ServicesDep

router = APIRouter(prefix="/v1/commands", tags=["commands"])


@router.post("", status_code=202, summary="Give the lake job a command")
async def create_command(principal: CommandsWrite, lily: ServicesDep, body: CommandCreate) -> CommandView:
    """Answered when Kafka has the command; read it again to see how it goes. One of a kind at a time."""
    return CommandView.model_validate(await service.create(lily, principal, body))


@router.get("", summary="List commands")
async def list_commands(
    principal: CommandsRead, lily: ServicesDep, limit: paging.Limit = 100, cursor: paging.Cursor = None
) -> Page[CommandView]:
    """Newest first."""
    rows = await service.list_page(lily, principal.tenant, paging.decode_time_id(cursor), limit)
    return Page[CommandView](
        items=[CommandView.model_validate(row) for row in rows],
        next_cursor=paging.encode_time_id(rows[-1].created_at, rows[-1].id) if len(rows) == limit else None,
    )


@router.get("/{command_id}", summary="Read a command")
async def get_command(principal: CommandsRead, lily: ServicesDep, command_id: ObjectId) -> CommandView:
    return CommandView.model_validate(await service.get(lily, principal.tenant, command_id))


@router.post("/{command_id}/cancel", summary="Cancel a replay")
async def cancel_command(principal: CommandsWrite, lily: ServicesDep, command_id: ObjectId) -> CommandView:
    """Nothing more of it is sent but what is on its way already. Other commands cannot be cancelled: 409."""
    return CommandView.model_validate(await replays.cancel(lily, principal, command_id))
