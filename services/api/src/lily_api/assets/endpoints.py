"""`/v1/assets`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from lily_api import paging
from lily_api.assets import service, views
from lily_api.assets.repository import Filter
from lily_api.assets.routing import QualifiedNamePath, SubResource, checked
from lily_api.assets.schemas import AssetSummary, AssetTags, AssetView, HistoryEntry, IncidentView
from lily_api.auth.permissions import AssetsRead
from lily_api.lake.moments import AsOf, moment
from lily_api.lake.reader import Place
from lily_api.schemas import Page, Text
from lily_api.services import ServicesDep
from lily_common.envelope import rfc3339
from lily_common.names import AssetType

router = APIRouter(prefix="/v1/assets", tags=["assets"])
#: Its routes come first: they match only their own last segment.
parts = APIRouter(prefix="/v1/assets", tags=["assets"], route_class=SubResource)


@router.get("", summary="List assets")
async def list_assets(
    principal: AssetsRead,
    lily: ServicesDep,
    *,
    asset_type: Annotated[AssetType | None, Query(alias="type")] = None,
    tag: Annotated[Text | None, Query(max_length=256, examples=["PII"], description="Effective tag")] = None,
    parent: Annotated[Text | None, Query(max_length=2048, description="Qualified name of the parent")] = None,
    q: Annotated[
        Text | None,
        Query(
            min_length=1,
            max_length=200,
            examples=["customer email"],
            description="Words; each must begin a word of the asset's name or qualified name, in any case",
        ),
    ] = None,
    limit: paging.Limit = 100,
    cursor: paging.Cursor = None,
) -> Page[AssetSummary]:
    """Assets of the mirror by qualified name; filters narrow together. Deleted assets are not listed, nor are those
    without a change for so long that only the lake holds them."""
    after = paging.decode(cursor, str)
    wanted = Filter(asset_type=asset_type, tag=tag, parent=parent, q=q)
    rows = await service.list_page(lily, principal.tenant, wanted, after[0] if after else "", limit)
    return Page[AssetSummary](
        items=[AssetSummary.model_validate(row) for row in rows],
        next_cursor=paging.encode(rows[-1]["qualified_name"]) if len(rows) == limit else None,
    )


@parts.get("/{qualified_name:path}/incidents", summary="List an asset's incidents")
async def list_incidents(
    principal: AssetsRead,
    lily: ServicesDep,
    qualified_name: QualifiedNamePath,
    limit: paging.Limit = 100,
    cursor: paging.Cursor = None,
) -> Page[IncidentView]:
    """Open ones first, then the newest."""
    key = paging.decode(cursor, int, str)
    after = (bool(key[0]), str(key[1])) if key else None
    rows = await service.incidents(lily, principal.tenant, checked(qualified_name), after, limit)
    return Page[IncidentView](
        items=[views.incident(row) for row in rows],
        next_cursor=paging.encode(int(rows[-1]["open"]), rows[-1]["version"]) if len(rows) == limit else None,
    )


@parts.get("/{qualified_name:path}/history", summary="Read an asset's history")
async def get_history(
    principal: AssetsRead,
    lily: ServicesDep,
    qualified_name: QualifiedNamePath,
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
) -> Page[HistoryEntry]:
    """Every accepted event of the asset, newest first, from the lake: also of a deleted asset. A new event is seen
    some seconds after its acceptance. Fields that the tenant calls sensitive are left out."""
    place = paging.decode_time_id(cursor)
    before = Place(*place) if place else None
    entries = await service.history(lily, principal.tenant, checked(qualified_name), before, limit)
    last = entries[-1] if len(entries) == limit else None
    return Page[HistoryEntry](
        items=entries,
        next_cursor=paging.encode(rfc3339(last.accepted_time), last.version) if last else None,
    )


@parts.get("/{qualified_name:path}/tags", summary="Read an asset's tags")
async def get_tags(
    principal: AssetsRead,
    lily: ServicesDep,
    *,
    qualified_name: QualifiedNamePath,
    explain: Annotated[bool, Query(description="Say in words why each tag is there")] = False,
    as_of: AsOf = None,
) -> AssetTags:
    """Effective tags with the origins that keep them alive, those by propagation with rule, origin and path."""
    name = checked(qualified_name)
    if as_of is None:
        found = await service.get(lily, principal.tenant, name)
    else:
        found = await service.get_as_of(lily, principal.tenant, name, moment(as_of))
    return views.explained(found) if explain else AssetTags(qualified_name=name, tags=found.tags)


@router.get("/{qualified_name:path}", summary="Read an asset")
async def get_asset(
    principal: AssetsRead, lily: ServicesDep, qualified_name: QualifiedNamePath, as_of: AsOf = None
) -> AssetView:
    """The asset now, or with `as_of` after all that was accepted up to that time. A deleted asset is answered with
    404 and the problem `asset-deleted`."""
    name = checked(qualified_name)
    if as_of is None:
        return await service.get(lily, principal.tenant, name)
    return await service.get_as_of(lily, principal.tenant, name, moment(as_of))
