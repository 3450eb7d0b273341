"""`/v1/history`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from lily_api.auth.permissions import AssetsRead
from lily_api.history.schemas import CommitBounds, CommitView
from lily_api.lake.commits import CommitReader
from lily_api.lake.moments import moment
from lily_api.services import ServicesDep
from lily_common.errors import FieldError, InvalidInputError

router = APIRouter(prefix="/v1/history", tags=["history"])


@router.get("/commits", summary="Find commits of the event stream")
async def get_commits(
    principal: AssetsRead,
    lily: ServicesDep,
    *,
    at: Annotated[
        str | None,
        Query(
            max_length=64,
            description="RFC 3339 time: the first commit with an event accepted then or later",
            examples=["2026-01-09T11:00:00Z"],
        ),
    ] = None,
    commit: Annotated[
        int | None, Query(ge=0, lt=2**62, description="The first commit with this number or a greater one")
    ] = None,
) -> CommitBounds:
    """The commits that the tenant's events came in and that can be replayed from, and the one that was asked for: by
    time or by number. Other tenants' commits are not seen: numbers have gaps."""
    if at is not None and commit is not None:
        wrong = "give either at or commit"
        raise InvalidInputError(wrong, [FieldError("query.at", wrong)])
    since = moment(at, "at") if at is not None else None
    extent, found = await lily.get(CommitReader).find(principal.tenant, since, commit)
    answer = CommitBounds.model_validate(extent) if extent is not None else CommitBounds()
    answer.found = CommitView.model_validate(found) if found is not None else None
    return answer
