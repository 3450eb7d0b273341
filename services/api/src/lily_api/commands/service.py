"""The life of a command: a row first, then the message; the row says `queued` only when Kafka has it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from pydantic import JsonValue, ValidationError
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api import audit
from lily_api.auth import credentials
from lily_api.auth.principal import Principal
from lily_api.commands import repository
from lily_api.commands.models import Command
from lily_api.commands.schemas import ARGS, CommandCreate, CommandName, TableArgs
from lily_api.replays.checks import prepare
from lily_api.services import Services
from lily_api.tables import repository as tables
from lily_common.errors import ConflictError, FieldError, ForbiddenError, InvalidInputError, NotFoundError
from lily_common.events import COMMANDS_TOPIC
from lily_common.kafka import Record

#: A command that has not ended after this long no longer stands in another's way.
_GIVEN_UP = timedelta(hours=1)
_OPERATORS_ONLY = frozenset({CommandName.COMPACT})


async def create(services: Services, principal: Principal, wanted: CommandCreate) -> Command:
    """Returns when Kafka has acknowledged the command.

    Raises InvalidInputError when the arguments do not fit, ConflictError while the tenant has the same command with
    the same arguments under way, and UnavailableError when Kafka does not acknowledge: it is then sent later all the
    same.
    """
    if wanted.command in _OPERATORS_ONLY and not principal.is_operator:
        raise ForbiddenError(f"{wanted.command} concerns all tenants: only the operator may ask for it")
    args = check_args(wanted.command, wanted.args)
    since = datetime.now(UTC) - _GIVEN_UP
    async with services.db.begin() as session:
        await _check_table(session, principal.tenant, wanted.command, args)
        if wanted.command is CommandName.REPLAY:
            await prepare(session, principal.tenant, args)
        if await repository.is_open(session, principal.tenant, wanted.command, args, since):
            raise ConflictError(f"this {wanted.command} is under way already", code="under-way")
        command = add(session, principal, wanted.command.value, args)
        detail = wanted.model_dump() | {"args": args}
        await audit.record(session, principal, "command.create", f"command:{command.id}", detail)
    await publish(services, command)
    return await get(services, principal.tenant, command.id)


def check_args(command: CommandName, args: dict[str, JsonValue]) -> dict[str, Any]:
    """The arguments with their defaults. Raises InvalidInputError (422) naming each wrong one."""
    try:
        return ARGS[command].model_validate(args).model_dump(mode="json")
    except ValidationError as invalid:
        errors = [
            FieldError(".".join(["body.args", *(str(part) for part in item["loc"])])[:500], item["msg"])
            for item in invalid.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise InvalidInputError(f"{errors[0].field}: {errors[0].message}", errors) from None


def add(session: AsyncSession, principal: Principal, name: str, args: dict[str, Any]) -> Command:
    """A new command in the caller's transaction; `publish` it once that is committed (else it is sent later)."""
    command = Command(
        id=credentials.new_id("cmd"),
        tenant=principal.tenant,
        command=name,
        args=args,
        requested_by=principal.subject,
    )
    session.add(command)
    return command


async def _check_table(
    session: AsyncSession, tenant: str, command: CommandName, args: dict[str, Any]
) -> None:
    if issubclass(ARGS[command], TableArgs) and not await tables.known(session, tenant, args["table"]):
        message = f"there is no table {args['table']}"
        raise InvalidInputError(message, [FieldError("body.args.table", message)], code="unknown-table")


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
