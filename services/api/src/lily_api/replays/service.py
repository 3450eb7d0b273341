"""The end of a replay before its time."""

from __future__ import annotations

from lily_api import audit
from lily_api.auth.principal import Principal
from lily_api.commands import repository as commands
from lily_api.commands import service
from lily_api.commands.models import Command
from lily_api.commands.schemas import CommandName
from lily_api.deliveries import repository as deliveries
from lily_api.services import Services
from lily_common.errors import ConflictError, NotFoundError

#: The command that the lake job gets; nobody gives it but `cancel`.
CANCEL_REPLAY = "cancel_replay"


async def cancel(services: Services, principal: Principal, command_id: str) -> Command:
    """End a replay: nothing more of it is sent but what a worker has in its hands.

    Raises NotFoundError when there is no such command, ConflictError when it is no replay or has ended.
    """
    tenant = principal.tenant
    async with services.db.begin() as session:
        found = await commands.get(session, tenant, command_id)
        if found is None:
            raise NotFoundError("there is no such command", code="unknown-command")
        if found.command != CommandName.REPLAY:
            raise ConflictError("only a replay can be cancelled", code="not-cancellable")
        ended = found.status not in commands.OPEN
        if ended or not await commands.advance(session, tenant, command_id, "cancelled", found.detail):
            raise ConflictError(f"it is {found.status} already", code="ended")
        await deliveries.cancel_replay(session, tenant, command_id)
        order = service.add(session, principal, CANCEL_REPLAY, {"replay": command_id})
        await audit.record(session, principal, "command.cancel", f"command:{command_id}")
    await service.publish(services, order)
    return await service.get(services, tenant, command_id)
