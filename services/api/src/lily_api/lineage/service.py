"""The walk: level by level, never twice to one asset, within bounds on depth, nodes and edges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from lily_api.assets import views
from lily_api.assets.service import sensitive_fields
from lily_api.lake.edges import EdgeReader
from lily_api.lineage.question import Question
from lily_api.lineage.repository import Document, End
from lily_api.lineage.schemas import Direction, Level, LineageEdge, LineageNode, LineageView
from lily_api.lineage.source import LakeSource, MirrorSource, Source
from lily_api.services import Services

MAX_NODES = 2_000
MAX_EDGES = 10_000


@dataclass
class _Graph:
    """What has been found so far. `known` and `described` hold documents of assets, `distance` those of the graph."""

    distance: dict[str, int] = field(default_factory=dict)
    known: dict[str, Document] = field(default_factory=dict)
    described: dict[str, Document] = field(default_factory=dict)
    edges: dict[Any, Document] = field(default_factory=dict)
    truncated: bool = False


async def walk(services: Services, asked: Question) -> LineageView:
    """Raises NotFoundError when the asset is unknown and no edge names it, or when it is deleted.

    Of a time in the past InvalidInputError when the answer would cost too much.
    """
    source, root = await _source(services, asked), asked.root
    graph = _Graph(known=await source.known([root]))
    graph.described = await source.described([root])
    document = graph.described.get(root) or graph.known.get(root)
    if document is not None and document.get("deleted"):
        raise views.deleted()
    starts = [root]
    if asked.level is Level.COLUMN:
        starts += await source.columns_of(root, MAX_NODES - 1)
        graph.known |= await source.known(starts[1:])
    graph.distance = dict.fromkeys(starts, 0)
    for end in _ends(asked.direction):
        await _walk(source, asked, graph, starts, end)
    if document is None and not graph.edges:
        raise views.unknown()
    graph.described |= await source.described([name for name in graph.distance if name != root])
    return _view(graph, asked)


async def _source(services: Services, asked: Question) -> Source:
    if asked.at is None:
        return MirrorSource(services.mongo, asked.tenant)
    sensitive = await sensitive_fields(services, asked.tenant)
    return LakeSource(services.get(EdgeReader), asked.tenant, asked.at, sensitive)


def _ends(direction: Direction) -> list[End]:
    """Which end of an edge the walk stands on: going upstream it stands on the downstream ends."""
    ends: dict[Direction, list[End]] = {
        Direction.UPSTREAM: ["downstream"],
        Direction.DOWNSTREAM: ["upstream"],
        Direction.BOTH: ["downstream", "upstream"],
    }
    return ends[direction]


async def _walk(source: Source, asked: Question, graph: _Graph, starts: list[str], end: End) -> None:
    other: End = "upstream" if end == "downstream" else "downstream"
    frontier, reached = starts, set(starts)
    for step in range(1, asked.depth + 1):
        room = MAX_EDGES - len(graph.edges)
        found = await source.edges_at(end, frontier, kind=asked.level, limit=room + 1)
        if len(found) > room:
            graph.truncated, found = True, found[:room]
        news = sorted({edge[other] for edge in found} - graph.known.keys())
        graph.known |= await source.known(news)
        frontier = []
        for edge in found:
            if _hidden(edge, graph.known):
                continue
            name = edge[other]
            if name not in graph.distance and len(graph.distance) >= MAX_NODES:
                graph.truncated = True
                continue
            graph.edges[edge["_id"]] = edge
            graph.distance.setdefault(name, step)
            if name not in reached:
                reached.add(name)
                frontier.append(name)
        if not frontier:
            return


def _hidden(edge: Document, known: dict[str, Document]) -> bool:
    """An edge is gone when either end was deleted after it was made."""
    return any(
        edge["version"] < known.get(edge[end], {}).get("tombstone", "") for end in ("upstream", "downstream")
    )


def _view(graph: _Graph, asked: Question) -> LineageView:
    drawn = {asked.root} | {edge[end] for edge in graph.edges.values() for end in ("upstream", "downstream")}
    return LineageView(
        root=asked.root,
        direction=asked.direction,
        depth=asked.depth,
        nodes=[
            _node(name, distance, graph.described.get(name) or graph.known.get(name, {}))
            for name, distance in sorted(graph.distance.items(), key=lambda item: (item[1], item[0]))
            if name in drawn
        ],
        edges=[_edge(edge) for edge in graph.edges.values()],
        truncated=graph.truncated,
    )


def _node(name: str, distance: int, document: Document) -> LineageNode:
    return LineageNode(
        qualified_name=name,
        asset_type=document.get("asset_type"),
        name=document.get("name"),
        tags=document.get("tags", []),
        distance=distance,
    )


def _edge(edge: Document) -> LineageEdge:
    return LineageEdge(
        upstream=edge["upstream"],
        downstream=edge["downstream"],
        via=edge["via"] or None,
        kind=edge["kind"],
        transformation=orjson.loads(edge["data"]).get("transformation"),
    )
