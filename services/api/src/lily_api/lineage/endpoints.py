"""`/v1/assets/{qualified_name}/lineage`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from lily_api.assets.routing import QualifiedNamePath, SubResource, checked
from lily_api.auth.permissions import AssetsRead
from lily_api.lake.moments import AsOf, moment
from lily_api.lineage import service
from lily_api.lineage.question import Question
from lily_api.lineage.schemas import Direction, Level, LineageView
from lily_api.services import ServicesDep

router = APIRouter(prefix="/v1/assets", tags=["lineage"], route_class=SubResource)
MAX_DEPTH = 25


@router.get("/{qualified_name:path}/lineage", summary="Read an asset's lineage")
async def get_lineage(
    principal: AssetsRead,
    lily: ServicesDep,
    qualified_name: QualifiedNamePath,
    *,
    direction: Direction = Direction.BOTH,
    depth: Annotated[int, Query(ge=1, le=MAX_DEPTH, description="Edges to follow from the asset")] = 3,
    level: Annotated[
        Level | None,
        Query(description="Only edges of this kind; `column` starts from the asset's columns as well"),
    ] = None,
    as_of: AsOf = None,
) -> LineageView:
    """Assets that this one is made of (upstream) or that are made of it (downstream), and the edges between. An edge
    is not shown when it was removed, or when an asset at either end was deleted after it was made. With `as_of` the
    graph is that after all that was accepted up to that time, from the lake; a graph of more than 100,000 edges is
    refused."""
    at = moment(as_of) if as_of is not None else None
    wanted = Question(principal.tenant, checked(qualified_name), direction, depth, level, at)
    return await service.walk(lily, wanted)
