"""Queries on the mirror. Each begins with the tenant; search uses ranges, never a client's text as a pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import ExecutionTimeout

from lily_common.documents import ASSETS, INCIDENTS, asset_id, query_words
from lily_common.errors import InvalidInputError

Document = dict[str, Any]
Mirror = AsyncDatabase[Document]

_SUMMARY = ("qualified_name", "asset_type", "name", "parent", "tags", "version", "updated_at")
_LIST_MS = 5_000
_LAST = chr(0x10FFFF)


@dataclass(frozen=True, slots=True)
class Filter:
    """What a list is narrowed to; None does not narrow. Each word of `q` must begin a word of the asset's names."""

    asset_type: str | None = None
    tag: str | None = None
    parent: str | None = None
    q: str | None = None


async def get(mirror: Mirror, tenant: str, qualified_name: str) -> Document | None:
    return await mirror[ASSETS].find_one({"_id": asset_id(tenant, qualified_name), "tenant": tenant})


async def list_after(mirror: Mirror, tenant: str, wanted: Filter, after: str, limit: int) -> list[Document]:
    """Summaries of live assets whose name is greater than `after`, by name.

    Raises InvalidInputError when the search is too broad to be answered in time, or has no word.
    """
    conditions: Document = {"tenant": tenant, "deleted": False}
    conditions |= {
        name: value
        for name, value in (
            ("asset_type", wanted.asset_type),
            ("tags", wanted.tag),
            ("parent", wanted.parent),
        )
        if value is not None
    }
    if wanted.q is not None:
        conditions["$and"] = _search(wanted.q)
    conditions["_id"] = {"$gt": asset_id(tenant, after), "$lt": asset_id(tenant, _LAST)}
    found = mirror[ASSETS].find(conditions, dict.fromkeys(_SUMMARY, 1), sort=[("_id", 1)], limit=limit)
    try:
        return await found.max_time_ms(_LIST_MS).to_list()
    except ExecutionTimeout:
        raise InvalidInputError(
            "the search is too broad to be answered in time: narrow it", code="search-too-broad"
        ) from None


def _search(text: str) -> list[Document]:
    words = query_words(text)
    if not words:
        raise InvalidInputError("q holds no word to search for", code="nothing-to-search")
    return [{"search": {"$elemMatch": {"$gte": word, "$lt": word + _LAST}}} for word in words]


async def incidents(
    mirror: Mirror,
    tenant: str,
    qualified_name: str,
    *,
    hidden_below: str,
    after: tuple[bool, str] | None,
    limit: int,
) -> list[Document]:
    """Incidents of the asset whose version is above `hidden_below` (its tombstone): open ones first, then newest."""
    conditions: Document = {
        "tenant": tenant,
        "qualified_name": qualified_name,
        "version": {"$gt": hidden_below},
    }
    if after is not None:
        was_open, version = after
        later: list[Document] = [{"open": was_open, "version": {"$lt": version}}]
        conditions["$or"] = [*later, {"open": False}] if was_open else later
    order = [("open", -1), ("version", -1)]
    return await mirror[INCIDENTS].find(conditions, sort=order, limit=limit).to_list()
