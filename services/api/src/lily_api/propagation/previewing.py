"""A preview is answered by the lake job, which has the graph: asked by command, waited for here."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from lily_api.auth.principal import Principal
from lily_api.commands import service as commands
from lily_api.propagation.schemas import PreviewRequest
from lily_api.services import Services
from lily_common.envelope import accept
from lily_common.errors import FieldError, InvalidInputError, UnavailableError

PREVIEW = "preview_propagation"
_WAIT_SECONDS = 30.0
_LOOK_SECONDS = 0.1


async def preview(services: Services, principal: Principal, wanted: PreviewRequest) -> dict[str, Any]:
    """What would be told. Raises InvalidInputError, and UnavailableError when the lake job does not answer in time."""
    _check(principal.tenant, wanted)
    async with services.db.begin() as session:
        command = commands.add(session, principal, PREVIEW, wanted.model_dump(mode="json"))
    await commands.publish(services, command)
    deadline = asyncio.get_running_loop().time() + _WAIT_SECONDS
    while asyncio.get_running_loop().time() < deadline:
        found = await commands.get(services, principal.tenant, command.id)
        if found.status == "succeeded" and isinstance(found.detail, dict):
            return found.detail
        if found.status == "failed":
            raise UnavailableError(f"the lake job could not tell: {found.detail}")
        await asyncio.sleep(_LOOK_SECONDS)
    raise UnavailableError("the lake job has not answered in time")


def _check(tenant: str, wanted: PreviewRequest) -> None:
    """Wrong changes are told here, by the fields of the request."""
    if not wanted.changes and wanted.rule is None:
        message = "changes or a rule are wanted"
        raise InvalidInputError(message, [FieldError("body.changes", message)])
    for number, change in enumerate(wanted.changes):
        event = {"specversion": "1.0", "id": "preview", "source": "/lily/preview", **change.model_dump()}
        try:
            accept(tenant, event, datetime.now(UTC))
        except InvalidInputError as wrong:
            errors = [
                FieldError(f"body.changes.{number}.{each.field}", each.message) for each in wrong.errors
            ]
            raise InvalidInputError(f"{errors[0].field}: {errors[0].message}", errors) from None
