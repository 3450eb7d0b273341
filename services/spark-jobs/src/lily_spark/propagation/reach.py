"""How far something reaches in a graph that changes: labels repaired where the graph changed, and nowhere else.

A node's label is (depth, origin): how many edges the nearest source is away, and which one that is; of several the one
first by name. The labels of a graph are a function of the graph alone, so that whatever order its changes came in, the
end is the same. Repairing follows Ramalingam and Reps, "An incremental algorithm for a generalization of the
shortest-path problem" (1996), DynamicSWSF-FP: its cost is that of the nodes whose label changes and their edges.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol

Node = int
#: (depth, the origin's name, origin)
Label = tuple[int, str, Node]
_FAR: Label = (1 << 30, "", -1)


@dataclass(frozen=True, slots=True)
class Reached:
    """Where a node stands: its origin, how many edges away that is, and the node before it on the way."""

    origin: Node
    depth: int
    before: Node


class Graph(Protocol):
    """The graph as one cause sees it: edges that its rule follows, nodes that may take part."""

    def name(self, node: Node) -> str: ...
    def is_source(self, node: Node) -> bool: ...
    def is_open(self, node: Node) -> bool:
        """Whether the node may take what arrives and pass it on. A source is asked no more than whether it is one."""
        ...

    def into(self, node: Node) -> Iterable[Node]: ...
    def out(self, node: Node) -> Iterable[Node]: ...


class Held(Protocol):
    """How the cause reached before the graph changed. Sources are held as reaching themselves (depth 0)."""

    def get(self, node: Node) -> Reached | None: ...
    def after(self, node: Node) -> Iterable[Node]:
        """The nodes that stand with `before` = node."""
        ...


class Repair:
    """One cause's labels, made right again after changes at some nodes."""

    def __init__(self, graph: Graph, held: Held, max_depth: int) -> None:
        self._graph = graph
        self._held = held
        self._max_depth = max_depth
        self._labels: dict[Node, Label] = {}  # as they are now
        self._wanted: dict[Node, Label] = {}  # as the neighbours' labels would have them
        self._heap: list[tuple[Label, Node]] = []

    def run(self, dirty: Iterable[Node]) -> dict[Node, tuple[Reached | None, list[Node]]]:
        """Nodes that now stand elsewhere, or whose way is another: where, and the way from the origin (both included).

        `dirty` are the nodes at which the graph may have changed: that are a source or open as they were not, or that
        an edge into which has come or gone.
        """
        seeds = set(dirty)
        for node in seeds:
            self._want(node, self._computed(node))
        self._settle()
        changed = {node for node, label in self._labels.items() if label != self._before(node)}
        return self._ways(seeds, changed)

    def _settle(self) -> None:
        while self._heap:
            key, node = heappop(self._heap)
            label, wanted = self._label(node), self._wanted.get(node)
            if wanted is None or label == wanted or key != min(label, wanted):
                continue
            if wanted < label:
                self._labels[node] = wanted
                for neighbour in self._graph.out(node):
                    self._offer(neighbour, self._next(wanted))
            else:
                self._labels[node] = _FAR
                self._want(node, self._computed(node))
                for neighbour in self._graph.out(node):
                    self._want(neighbour, self._computed(neighbour))

    def _computed(self, node: Node) -> Label:
        if self._graph.is_source(node):
            return (0, self._graph.name(node), node)
        if not self._graph.is_open(node):
            return _FAR
        labels = (self._next(self._label(other)) for other in self._graph.into(node) if other != node)
        return min(labels, default=_FAR)

    def _offer(self, node: Node, label: Label) -> None:
        """A neighbour came nearer: no other needs to be asked."""
        if label < self._wanted.get(node, self._label(node)):
            if self._graph.is_source(node) or not self._graph.is_open(node):
                return
            self._want(node, label)

    def _want(self, node: Node, label: Label) -> None:
        self._wanted[node] = label
        now = self._label(node)
        if now != label:
            heappush(self._heap, (min(now, label), node))

    def _next(self, label: Label) -> Label:
        depth, name, origin = label
        return (depth + 1, name, origin) if depth < self._max_depth else _FAR

    def _label(self, node: Node) -> Label:
        known = self._labels.get(node)
        if known is None:
            known = self._labels[node] = self._before(node)
        return known

    def _before(self, node: Node) -> Label:
        held = self._held.get(node)
        return _FAR if held is None else (held.depth, self._graph.name(held.origin), held.origin)

    # --- ways ---------------------------------------------------------------------------------------------------------

    def _ways(self, seeds: set[Node], changed: set[Node]) -> dict[Node, tuple[Reached | None, list[Node]]]:
        stands: dict[Node, Reached | None] = {}
        beside = {other for node in changed for other in self._graph.out(node)}
        for node in seeds | changed | beside:
            stands[node] = self._stand(node)
        moved = [node for node, now in stands.items() if now != self._held.get(node)]
        # A way is another when one on it stands elsewhere.
        found = dict.fromkeys(moved)
        waiting = list(moved)
        while waiting:
            for node in self._held.after(waiting.pop()):
                if node not in found:
                    found[node] = None
                    waiting.append(node)
                    if node not in stands:
                        stands[node] = self._held.get(node)
        return {node: (stands[node], self._way(node, stands)) for node in found}

    def _stand(self, node: Node) -> Reached | None:
        depth, _name, origin = label = self._label(node)
        if label == _FAR:
            return None
        if depth == 0:
            return Reached(node, 0, node)
        before = [
            other
            for other in self._graph.into(node)
            if other != node and self._next(self._label(other)) == label
        ]
        return Reached(origin, depth, min(before, key=self._graph.name))

    def _way(self, node: Node, stands: dict[Node, Reached | None]) -> list[Node]:
        way: list[Node] = []
        now = stands.get(node)
        while now is not None:
            way.append(node)
            if now.depth == 0:
                break
            node = now.before
            now = stands[node] if node in stands else self._held.get(node)
        return way[::-1]
