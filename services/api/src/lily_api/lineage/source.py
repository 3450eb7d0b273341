"""What a walk asks of whoever knows the edges: the mirror for now, the lake for a time in the past."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Protocol, cast

import orjson

from lily_api.lake.edges import EdgeReader, PastEdge, PastGraph
from lily_api.lineage import repository
from lily_api.lineage.repository import Document, End, Mirror
from lily_common.documents import without_sensitive
from lily_common.names import parent_of
from lily_common.state import Registers, assemble


class Source(Protocol):
    """Documents are those of the mirror; see `repository`."""

    async def edges_at(self, end: End, names: list[str], *, kind: str | None, limit: int) -> list[Document]:
        """Live edges whose `end` is one of these assets, at most `limit`."""

    async def known(self, names: list[str]) -> dict[str, Document]:
        """What decides on edges: whether an asset is `deleted`, and its `tombstone`."""

    async def described(self, names: list[str]) -> dict[str, Document]:
        """What is shown of an asset: asset_type, name, tags. May leave out what `known` has told."""

    async def columns_of(self, qualified_name: str, limit: int) -> list[str]:
        """The asset's columns, by name."""


class MirrorSource:
    """The graph of now."""

    def __init__(self, mirror: Mirror, tenant: str) -> None:
        self._mirror = mirror
        self._tenant = tenant

    async def edges_at(self, end: End, names: list[str], *, kind: str | None, limit: int) -> list[Document]:
        return await repository.edges_at(self._mirror, self._tenant, end, names, kind=kind, limit=limit)

    async def known(self, names: list[str]) -> dict[str, Document]:
        return await repository.nodes(self._mirror, self._tenant, names)

    async def described(self, names: list[str]) -> dict[str, Document]:  # noqa: ARG002
        return {}

    async def columns_of(self, qualified_name: str, limit: int) -> list[str]:
        return await repository.columns_of(self._mirror, self._tenant, qualified_name, limit)


class LakeSource:
    """The graph after the events accepted up to `at`. Its edges are read once, when first asked for."""

    def __init__(self, reader: EdgeReader, tenant: str, at: datetime, sensitive: frozenset[str]) -> None:
        self._reader = reader
        self._tenant = tenant
        self._at = at
        self._sensitive = sensitive
        self._held: PastGraph | None = None

    async def _graph(self) -> PastGraph:
        if self._held is None:
            self._held = await self._reader.graph(self._tenant, self._at)
        return self._held

    async def edges_at(self, end: End, names: list[str], *, kind: str | None, limit: int) -> list[Document]:
        graph = await self._graph()
        index = graph.by_upstream if end == "upstream" else graph.by_downstream
        found = (edge for name in names for edge in index.get(name, ()) if kind in (None, edge.kind))
        return [self._document(edge) for edge, _ in zip(found, range(limit), strict=False)]

    async def known(self, names: list[str]) -> dict[str, Document]:
        graph = await self._graph()
        return {
            name: {"qualified_name": name, "tombstone": graph.tombstones[name]}
            for name in names
            if name in graph.tombstones
        }

    async def described(self, names: list[str]) -> dict[str, Document]:
        past = await self._reader.registers(self._tenant, names, self._at)
        return {name: self._described(name, registers) for name, registers in past.items() if registers}

    async def columns_of(self, qualified_name: str, limit: int) -> list[str]:
        graph = await self._graph()
        ends = {
            name
            for index in (graph.by_upstream, graph.by_downstream)
            for name in index
            if parent_of(name) == qualified_name
        }
        return sorted(ends)[:limit]

    def _document(self, edge: PastEdge) -> Document:
        return {
            "_id": (edge.upstream, edge.downstream, edge.via),
            "upstream": edge.upstream,
            "downstream": edge.downstream,
            "via": edge.via,
            "kind": cast(Literal["table", "column"], edge.kind),
            "version": edge.version,
            "data": orjson.dumps(without_sensitive(edge.data, self._sensitive)),
        }

    def _described(self, name: str, registers: Registers) -> Document:
        state = assemble(registers)
        core: dict[str, Any] = {
            field: value for field, value in state.core.items() if field not in self._sensitive
        }
        return {
            "qualified_name": name,
            "asset_type": state.core.get("asset_type"),
            "name": core.get("name"),
            "tags": sorted(state.tags),
            "deleted": state.deleted,
        }
