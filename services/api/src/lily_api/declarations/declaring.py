"""A declaration out of a request: read and checked; kept, and answered with 201 when it is new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel

from lily_api.auth.principal import Principal
from lily_api.bodies import read_body
from lily_api.declarations import service
from lily_api.declarations.kinds import Kind
from lily_api.declarations.models import Declaration
from lily_api.declarations.parsing import checked, read_declaration
from lily_api.services import Services

Declared = TypeVar("Declared", bound=BaseModel)


async def given(request: Request, name: str, read: Callable[[Any], Declared]) -> Declared:
    """What the request declares under `name`. Raises what `read_declaration` and `checked` do."""
    body = await read_body(request)
    return checked(read, read_declaration(name, request.headers.get("content-type", ""), body))


async def keep(
    services: Services, principal: Principal, kind: Kind, name: str, declared: BaseModel, response: Response
) -> Declaration:
    """Declare it. Raises what `service.declare` does."""
    body = declared.model_dump(mode="json")
    row, created = await service.declare(services, principal, kind, name, body)
    response.status_code = 201 if created else 200
    return row
