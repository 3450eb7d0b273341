"""The life of a command: a row first, then the message; the row says `queued` only when Kafka has it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson

from lily_api import audit
from lily_api.auth import credentials
from lily_api.auth.principal import Principal
from lily_api.commands import repository
from lily_api.commands.models import Command
from lily_api.commands.schemas import CommandCreate, CommandName
from lily_api.services import Services
from lily_common.errors import ConflictError, ForbiddenError, NotFoundError
from lily_common.events import COMMANDS_TOPIC
from lily_common.kafka import Record

#: A command that has not ended after this long no longer stands in another's way.
_GIVEN_UP = timedelta(hours=1)
_OPERATORS_ONLY = frozenset({CommandName.COMPACT})


async def create(services: Services, principal: Principal, wanted: CommandCreate) -> Command:
    """Returns when Kafka has acknowledged the command.

    Raises ConflictError while the tenant has the same command under way, and UnavailableError when Kafka does not
    acknowledge: the command is then sent later all the same.
    """
    if wanted.command in _OPERATORS_ONLY and not principal.is_operator:
        raise ForbiddenError(f"{wanted.command} concerns all tenants: only the operator may ask for it")
    since = datetime.now(UTC) - _GIVEN_UP
    async with services.db.begin() as session:
        if await repository.is_open(session, principal.tenant, wanted.command, since):
            raise ConflictError(f"a {wanted.command} of this tenant is under way already", code="under-way")
        command = Command(
            id=credentials.new_id("cmd"),
            tenant=principal.tenant,
            command=wanted.command.value,
            args={},
            requested_by=principal.subject,
        )
        session.add(command)
        await audit.record(session, principal, "command.create", f"command:{command.id}", wanted.model_dump())
    await publish(services, command)
    return await get(services, principal.tenant, command.id)


async def publish(services: Services, command: Command) -> None:
    """Send the command and note that it is queued. Sent twice, it is done twice: commands are idempotent."""
    message = {
        "id": command.id,
        "tenant": command.tenant,
        "command": command.command,
        "args": command.args,
        "requested_by": command.requested_by,
    }
    await services.producer.send([Record(COMMANDS_TOPIC, command.tenant.encode(), orjson.dumps(message))])
    async with services.db.begin() as session:
        await repository.advance(session, command.tenant, command.id, "queued", None)


async def get(services: Services, tenant: str, command_id: str) -> Command:
    async with services.db() as session:
        found = await repository.get(session, tenant, command_id)
    if found is None:
        raise NotFoundError("there is no such command", code="unknown-command")
    return found


async def list_page(
    services: Services, tenant: str, after: tuple[datetime, str] | None, limit: int
) -> list[Command]:
    async with services.db() as session:
        return await repository.list_page(session, tenant, after, limit)
