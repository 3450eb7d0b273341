"""Queries on the mirror's edges: one per level of a walk, whatever its width."""

from __future__ import annotations

from typing import Any, Literal

from pymongo.asynchronous.database import AsyncDatabase

from lily_common.documents import ASSETS, EDGES, asset_id

Document = dict[str, Any]
Mirror = AsyncDatabase[Document]
End = Literal["upstream", "downstream"]

_EDGE = ("upstream", "downstream", "via", "kind", "version", "data")
_NODE = ("qualified_name", "asset_type", "name", "tags", "deleted", "tombstone")


async def edges_at(
    mirror: Mirror, tenant: str, end: End, names: list[str], *, kind: str | None, limit: int
) -> list[Document]:
    """Live edges whose `end` is one of these assets, at most `limit`."""
    conditions: Document = {"tenant": tenant, end: {"$in": names}, "removed": False}
    if kind is not None:
        conditions["kind"] = kind
    return await mirror[EDGES].find(conditions, dict.fromkeys(_EDGE, 1), limit=limit).to_list()


async def nodes(mirror: Mirror, tenant: str, names: list[str]) -> dict[str, Document]:
    """What the mirror knows of these assets, by qualified name; deleted ones with their tombstone."""
    ids = [asset_id(tenant, name) for name in names]
    found = mirror[ASSETS].find({"_id": {"$in": ids}, "tenant": tenant}, dict.fromkeys(_NODE, 1))
    return {document["qualified_name"]: document async for document in found}


async def columns_of(mirror: Mirror, tenant: str, qualified_name: str, limit: int) -> list[str]:
    """Qualified names of the asset's live columns (and other children that carry column edges)."""
    conditions = {"tenant": tenant, "parent": qualified_name, "deleted": False}
    found = mirror[ASSETS].find(conditions, {"qualified_name": 1}, sort=[("_id", 1)], limit=limit)
    return [document["qualified_name"] async for document in found]
