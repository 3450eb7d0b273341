"""What a replay needs before it goes to the lake job."""

from __future__ import annotations

from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.commands import repository as commands
from lily_api.subscriptions import repository as subscriptions
from lily_common.errors import ConflictError, FieldError, InvalidInputError
from lily_common.events import FANOUT_TYPES
from lily_connectors.egress.models import ACTIVE, PAUSED

#: Replays of one tenant that may be under way at a time.
MAX_OPEN = 4


async def prepare(session: AsyncSession, tenant: str, args: dict[str, Any]) -> None:
    """Check the target, and name the types that it hears where none are named: `args` is completed in place.

    Raises InvalidInputError naming the argument, and ConflictError when too many replays are under way.
    """
    if await commands.count_open(session, tenant, "replay") >= MAX_OPEN:
        raise ConflictError(f"{MAX_OPEN} replays are under way already", code="under-way")
    wanted = args["to_subscription"]
    if wanted is None:
        return
    found = await subscriptions.get(session, tenant, wanted)
    if found is None or found.status not in (ACTIVE, PAUSED):
        raise _wrong("there is no such subscription, or it is disabled")
    if found.managed:
        raise _wrong(
            "is the tenant's live topic, which replays stay out of: give to_topic a topic of its own"
        )
    if args["filter"] and not args["types"]:
        args["types"] = list(found.types) or list(FANOUT_TYPES)


def _wrong(message: str) -> InvalidInputError:
    field = FieldError("body.args.to_subscription", message)
    return InvalidInputError(f"{field.field}: {message}", [field])
