"""`/v1/tables`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from lily_api import paging
from lily_api.auth.permissions import TablesRead, TablesWrite
from lily_api.bodies import read_body
from lily_api.declarations.parsing import declared_body
from lily_api.lake.moments import AsOf, moment
from lily_api.schemas import Page
from lily_api.services import ServicesDep
from lily_api.tables import service
from lily_api.tables.parsing import read_declaration
from lily_api.tables.schemas import EXAMPLE, EXAMPLE_YAML, TableName, TableView

router = APIRouter(prefix="/v1/tables", tags=["tables"])


@router.put(
    "/{table}",
    summary="Declare an incremental table",
    responses={201: {"model": TableView, "description": "Declared for the first time"}},
    openapi_extra={"requestBody": declared_body("TableSpec", EXAMPLE, EXAMPLE_YAML)},
)
async def put_table(
    principal: TablesWrite, lily: ServicesDep, table: TableName, request: Request, response: Response
) -> TableView:
    """The lake job builds it within its interval. When what it holds would change, it is built anew: readers see
    the old rows until the new ones are there."""
    spec = read_declaration(table, request.headers.get("content-type", ""), await read_body(request))
    view, created = await service.declare(lily, principal, spec)
    response.status_code = 201 if created else 200
    return view


@router.get("", summary="List incremental tables")
async def list_tables(
    principal: TablesRead, lily: ServicesDep, limit: paging.Limit = 100, cursor: paging.Cursor = None
) -> Page[TableView]:
    """By name, the built-in ones first."""
    key = paging.decode(cursor, str)
    views, more = await service.list_page(lily, principal.tenant, key[0] if key else None, limit)
    return Page[TableView](items=views, next_cursor=paging.encode(views[-1].name) if more else None)


@router.get("/{table}", summary="Read an incremental table's declaration")
async def get_table(principal: TablesRead, lily: ServicesDep, table: TableName) -> TableView:
    """With the figures of its last refresh."""
    return await service.get(lily, principal.tenant, table)


@router.get("/{table}/rows", summary="Read an incremental table's rows")
async def get_rows(
    principal: TablesRead,
    lily: ServicesDep,
    table: TableName,
    limit: paging.Limit = 100,
    cursor: paging.Cursor = None,
    as_of: AsOf = None,
) -> Page[dict[str, Any]]:
    """In the order of the key. Decimals are text, bytes base64. A page may be shorter than `limit` and yet have a
    next one. With `as_of` as the table stood then, as long as its files are kept."""
    after = paging.decode_values(cursor)
    at = moment(as_of) if as_of is not None else None
    page = await service.rows(lily, principal.tenant, table, after, limit, at)
    return Page[dict[str, Any]](
        items=page.rows, next_cursor=paging.encode(*page.after) if page.after else None
    )


@router.delete("/{table}", status_code=204, summary="Delete an incremental table")
async def delete_table(principal: TablesWrite, lily: ServicesDep, table: TableName) -> None:
    """The lake job removes its rows; its sources stay."""
    await service.delete(lily, principal, table)
