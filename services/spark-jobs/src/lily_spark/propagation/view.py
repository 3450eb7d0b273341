"""The graph as one cause sees it, and how the cause has reached so far."""

from __future__ import annotations

from collections.abc import Iterable

from lily_common.propagation.rules import Rule
from lily_spark.propagation.facts import Cause, Facts
from lily_spark.propagation.reach import Node, Reached


class RuleGraph:
    """Which edges a rule follows, and which assets take part. What is looked up is kept: make one for each round."""

    def __init__(self, facts: Facts, rule: Rule) -> None:
        self._facts = facts
        self.rule = rule
        self._open: dict[Node, bool] = {}
        self._out: dict[Node, list[Node]] = {}
        self._into: dict[Node, list[Node]] = {}
        self._types = None if rule.through is None else {str(kind.value) for kind in rule.through}

    def name(self, node: Node) -> str:
        return self._facts.asset(node).name

    def is_open(self, node: Node) -> bool:
        found = self._open.get(node)
        if found is None:
            typed = self._types is None or self._facts.asset(node).asset_type in self._types
            found = self._open[node] = typed and self.may_send(node)
        return found

    def may_send(self, node: Node) -> bool:
        """Whether what the asset has of its own leaves it: it is there, and no tag of its own stops the rule."""
        if not self._facts.asset(node).alive:
            return False
        return not self.rule.stop_at or not any(map(self.rule.stops, self._facts.own_tags(node)))

    def into(self, node: Node) -> list[Node]:
        found = self._into.get(node)
        if found is None:
            edges = self._facts.into(node)
            found = [up for up, is_column in edges if self._follows(up, node, is_column=is_column)]
            parent = self._facts.asset(node).parent
            if parent is not None and "children" in self.rule.along:
                found.append(parent)
            self._into[node] = found
        return found

    def out(self, node: Node) -> list[Node]:
        found = self._out.get(node)
        if found is None:
            edges = self._facts.out(node)
            found = [down for down, is_column in edges if self._follows(node, down, is_column=is_column)]
            if "children" in self.rule.along:
                found += self._facts.children(node)
            self._out[node] = found
        return found

    def _follows(self, up: Node, down: Node, *, is_column: bool) -> bool:
        if is_column:
            return "column" in self.rule.along
        if "table" not in self.rule.along:
            return False
        return not self.rule.refines() or not self._facts.joined_by_columns(up, down)


class TagGraph:
    """For a tag: its one origin is the source, as long as the tag is its own."""

    def __init__(self, graph: RuleGraph, facts: Facts, cause: Cause) -> None:
        self._graph = graph
        self._origin = cause.origin
        carried = graph.rule.carries(cause.what) and cause.what in facts.own_tags(cause.origin)
        self._begins = carried and graph.may_send(cause.origin)
        self.name, self.is_open, self.into, self.out = graph.name, graph.is_open, graph.into, graph.out

    def is_source(self, node: Node) -> bool:
        return self._begins and node == self._origin


class PropertyGraph:
    """For a property: who has a value of its own is a source, and takes none from another."""

    def __init__(self, graph: RuleGraph, facts: Facts, cause: Cause) -> None:
        self._graph = graph
        self._facts = facts
        self._property = cause.what
        self.name, self.into, self.out = graph.name, graph.into, graph.out

    def is_source(self, node: Node) -> bool:
        return self._owns(node) and self._graph.may_send(node)

    def is_open(self, node: Node) -> bool:
        return self._graph.is_open(node) and not self._owns(node)

    def _owns(self, node: Node) -> bool:
        return self._facts.value(node, self._property) is not None


class HeldBy:
    """How a cause has reached so far; see `reach.Held`."""

    def __init__(self, facts: Facts, cause: Cause) -> None:
        self._facts = facts
        self._cause = cause.id
        self._known: dict[Node, Reached | None] = {}

    def get(self, node: Node) -> Reached | None:
        if node not in self._known:
            self._known[node] = self._facts.reached(self._cause, node).reached
        return self._known[node]

    def after(self, node: Node) -> Iterable[Node]:
        return self._facts.after(self._cause, node)
