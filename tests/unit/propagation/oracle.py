"""What propagation must come to, by brute force: whole closures from whole states, level by level.

Nothing here knows of the index or of repairs: states are assembled from all events by `lily_common.state`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lily_common import events as ev
from lily_common.propagation.rules import Rule
from lily_common.state import AssetState, assemble, fold

#: (rule, tag, origin) -> the way from the origin to the asset
Tags = dict[tuple[str, str, str], tuple[str, ...]]
#: (rule, property) -> (value, the way from its source to the asset)
Values = dict[tuple[str, str], tuple[Any, tuple[str, ...]]]


@dataclass(frozen=True)
class Estate:
    """Every asset's state, of its own events alone."""

    states: Mapping[str, AssetState]

    @classmethod
    def of(cls, events: Iterable[Mapping[str, Any]]) -> Estate:
        by_asset: dict[str, list[Mapping[str, Any]]] = {}
        for event in events:
            if event["data"].get("origin_kind") != "propagated":
                by_asset.setdefault(event["subject"], []).append(event)
        return cls({name: assemble(fold(own)) for name, own in by_asset.items()})

    def own_tags(self, name: str) -> set[str]:
        return set(self.states[name].tags) if name in self.states else set()

    def deleted(self, name: str) -> bool:
        return name in self.states and self.states[name].deleted

    def parent(self, name: str) -> str | None:
        return self.states[name].core.get("parent") if name in self.states else None

    def edges(self) -> set[tuple[str, str, bool]]:
        """(upstream, downstream, between columns)"""
        return {
            (edge["upstream"], name, edge.get("kind") == "column")
            for name, state in self.states.items()
            for edge in state.edges
        }

    def value(self, name: str, prop: str) -> Any:
        core = self.states[name].core if name in self.states else {}
        value = core.get(prop)
        properties = core.get("properties")
        if value is None and isinstance(properties, dict):
            value = properties.get(prop)
        return None if value in ([], {}, "") else value


def steps(estate: Estate, rule: Rule) -> dict[str, set[str]]:
    """Upstream -> downstreams that the rule leads to."""
    edges = estate.edges()
    found: dict[str, set[str]] = {}
    joined = {(estate.parent(up), estate.parent(down)) for up, down, columns in edges if columns}
    for up, down, columns in edges:
        followed = "column" in rule.along if columns else "table" in rule.along
        if followed and not columns and rule.refines() and (up, down) in joined:
            followed = False
        if followed and up != down:
            found.setdefault(up, set()).add(down)
    if "children" in rule.along:
        for name in estate.states:
            parent = estate.parent(name)
            if parent and parent != name:
                found.setdefault(parent, set()).add(name)
    return found


def sends(estate: Estate, rule: Rule, name: str) -> bool:
    return not estate.deleted(name) and not any(map(rule.stops, estate.own_tags(name)))


def takes(estate: Estate, rule: Rule, name: str) -> bool:
    kind = estate.states[name].core.get("asset_type") if name in estate.states else None
    return sends(estate, rule, name) and (rule.through is None or kind in rule.through)


def tags(estate: Estate, rules: Mapping[str, Rule]) -> dict[str, Tags]:
    """Asset -> what it must have by propagation."""
    found: dict[str, Tags] = {}
    for rule in rules.values():
        if not rule.enabled or rule.classifications is None:
            continue
        leads = steps(estate, rule)
        for origin in estate.states:
            for tag in estate.own_tags(origin):
                if rule.carries(tag) and sends(estate, rule, origin):
                    for name, way in _closure(estate, rule, leads, {origin: (origin,)}):
                        found.setdefault(name, {})[rule.name, tag, origin] = way
    return found


def values(estate: Estate, rules: Mapping[str, Rule]) -> dict[str, Values]:
    """Asset -> (rule, property) -> (value, way)."""
    found: dict[str, Values] = {}
    for rule in rules.values():
        if not rule.enabled or rule.property is None:
            continue
        owning = {name for name in estate.states if estate.value(name, rule.property) is not None}
        sources = {name: (name,) for name in owning if sends(estate, rule, name)}
        for name, way in _closure(estate, rule, steps(estate, rule), sources, owning):
            value = estate.value(way[0], rule.property)
            found.setdefault(name, {})[rule.name, rule.property] = (value, way)
    return found


def _closure(
    estate: Estate,
    rule: Rule,
    leads: Mapping[str, set[str]],
    sources: Mapping[str, tuple[str, ...]],
    closed: Iterable[str] = (),
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Level by level. Of several ways of the same length: by the origin's name, then the name of the asset before."""
    ways = dict(sources)
    level = dict(sources)
    shut = set(closed)
    for _ in range(rule.max_depth):
        arriving: dict[str, tuple[str, ...]] = {}
        for before, way in level.items():
            for name in leads.get(before, ()):
                if name in ways or name in shut or not takes(estate, rule, name):
                    continue
                held = arriving.get(name)
                if held is None or (way[0], before) < (held[0], held[-2]):
                    arriving[name] = (*way, name)
        ways |= arriving
        level = arriving
        yield from arriving.items()


def told(events: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Tags], dict[str, Values]]:
    """Asset -> the tags, and the values, that it has by propagation, as a reader of all events sees it."""
    by_asset: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        by_asset.setdefault(event["subject"], []).append(event)
    found: dict[str, Tags] = {}
    inherited: dict[str, Values] = {}
    for name, own in by_asset.items():
        registers = fold(own)
        tombstone = registers["deleted"].version if "deleted" in registers else ""
        for register in registers.values():
            data = register.data
            if (
                register.type == ev.TAG_ATTACHED
                and data.get("origin_kind") == "propagated"
                and register.version > tombstone
            ):
                key = (data["rule"], data["tag"], data["origin_asset"])
                found.setdefault(name, {})[key] = tuple(data["path"])
            if (
                register.type == ev.PROPERTY_INHERITED
                and data["value"] is not None
                and register.version > tombstone
            ):
                value = (data["value"], tuple(data["path"]))
                inherited.setdefault(name, {})[data["rule"], data["property"]] = value
    return found, inherited
