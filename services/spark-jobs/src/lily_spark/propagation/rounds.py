"""A round: what changed in the graph goes into the index, and what follows from it comes out.

A closure is computed from origins and edges alone: a derived tag is told like any other change and never read as one.
What Lily told before is read back from the lake for one purpose: should the index not know of it (a crash after
telling, an index made anew), it is taken up as told, and then kept or taken back as the graph has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import orjson

from lily_common import events as ev
from lily_common.propagation.rules import Rule
from lily_common.state import SEPARATOR
from lily_spark.propagation.facts import NOBODY, Cause, Facts, Row, Standing
from lily_spark.propagation.reach import Graph, Node, Reached, Repair
from lily_spark.propagation.telling import SOURCE, Told, Trigger
from lily_spark.propagation.view import HeldBy, PropertyGraph, RuleGraph, TagGraph

#: Begins what an index holds as told that it has read back from the lake; then follows a digest of the way, if any.
_READ_BACK = "?"
#: tenant -> rule's name -> rule
Rules = Mapping[str, Mapping[str, Rule]]


@dataclass
class _Work:
    """One cause to look at: the assets at which to look, and the newest event on whose account."""

    cause: Cause
    trigger: Trigger
    seeds: set[Node] = field(default_factory=set)

    def add(self, node: Node, trigger: Trigger) -> None:
        self.seeds.add(node)
        self.trigger = max(self.trigger, trigger)


class Rounds:
    """Rounds over one index, in turn."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def load(self, rows: Iterable[Row]) -> None:
        """Take in registers of an index made anew; nothing follows until `change` has been called for every rule."""
        for row in rows:
            if row.is_derived:
                self._read_back(row, Trigger.of(row.version), {})
            else:
                self._facts.take(row)

    def take(self, rows: Iterable[Row], rules: Rules) -> Iterator[Told]:
        """Take in these registers and say what is to be told on their account."""
        dirty: dict[Node, Trigger] = {}
        work: dict[int, _Work] = {}
        for row in rows:
            trigger = Trigger.of(row.version)
            if row.is_derived:
                self._read_back(row, trigger, work)
                continue
            for node in self._facts.take(row):
                dirty[node] = max(dirty.get(node, trigger), trigger)
        graphs = {id(rule): RuleGraph(self._facts, rule) for held in rules.values() for rule in held.values()}
        for node, trigger in dirty.items():
            tenant = self._facts.asset(node).tenant
            for rule in rules.get(tenant, {}).values():
                for cause in self._causes(tenant, graphs[id(rule)], node):
                    work.setdefault(cause.id, _Work(cause, trigger)).add(node, trigger)
        yield from self._all(work.values(), rules)

    def change(self, tenant: str, name: str, rules: Rules, trigger: Trigger) -> Iterator[Told]:
        """What follows from the rule `name` being as it is now, or gone."""
        work = {cause.id: _Work(cause, trigger) for cause in self._facts.causes_of(tenant, name)}
        rule = rules.get(tenant, {}).get(name)
        if rule is not None:
            for cause in self._sources(tenant, rule):
                work.setdefault(cause.id, _Work(cause, trigger))
        graph = RuleGraph(self._facts, rule) if rule is not None else None
        for each in work.values():
            each.seeds.update(self._facts.reaching(each.cause.id))
            each.seeds.update(self._facts.read_back(each.cause.id))
            if each.cause.origin != NOBODY:
                each.seeds.add(each.cause.origin)
            elif rule is not None:
                each.seeds.update(self._facts.owning(tenant, each.cause.what))
            if graph is not None:
                # Where it has reached, edges may lead on that the rule did not follow before.
                each.seeds.update([after for node in each.seeds for after in graph.out(node)])
        yield from self._all(work.values(), rules)

    # --- which causes ---------------------------------------------------------------------------------------------

    def _causes(self, tenant: str, graph: RuleGraph, node: Node) -> Iterator[Cause]:
        """Causes of the rule for which a change at the node may matter."""
        facts, rule = self._facts, graph.rule
        if rule.property is not None:
            yield self._cause(tenant, rule.name, rule.property, NOBODY)
            return
        for near in (node, *graph.into(node)):
            yield from (cause for cause in facts.causes_at(near) if cause.rule == rule.name)
        for tag in facts.own_tags(node):
            if rule.carries(tag):
                yield self._cause(tenant, rule.name, tag, node)

    def _sources(self, tenant: str, rule: Rule) -> Iterator[Cause]:
        if rule.property is not None:
            yield self._cause(tenant, rule.name, rule.property, NOBODY)
            return
        for node, tag in self._facts.tagged(tenant):
            if rule.carries(tag):
                yield self._cause(tenant, rule.name, tag, node)

    def _cause(self, tenant: str, rule: str, what: str, origin: int) -> Cause:
        return Cause(self._facts.cause(tenant, rule, what, origin), tenant, rule, what, origin)

    # --- what follows ---------------------------------------------------------------------------------------------

    def _all(self, works: Iterable[_Work], rules: Rules) -> Iterator[Told]:
        graphs: dict[tuple[str, str], RuleGraph] = {}
        for work in works:
            cause = work.cause
            rule = rules.get(cause.tenant, {}).get(cause.rule)
            other_property = cause.origin == NOBODY and rule is not None and rule.property != cause.what
            if rule is None or not rule.enabled or other_property:
                yield from self._end(work)
                continue
            graph = graphs.setdefault((cause.tenant, cause.rule), RuleGraph(self._facts, rule))
            yield from self._repair(work, graph)

    def _end(self, work: _Work) -> Iterator[Told]:
        """The rule is no more: whatever it caused is taken back."""
        facts, cause = self._facts, work.cause.id
        for node in {*facts.reaching(cause), *facts.read_back(cause)}:
            yield from self._stand(work, node, None, [])

    def _repair(self, work: _Work, graph: RuleGraph) -> Iterator[Told]:
        facts, cause = self._facts, work.cause
        is_tag = cause.origin != NOBODY
        seen: Graph = TagGraph(graph, facts, cause) if is_tag else PropertyGraph(graph, facts, cause)
        moved = Repair(seen, HeldBy(facts, cause), graph.rule.max_depth).run(work.seeds)
        for node, (reached, way) in moved.items():
            yield from self._stand(work, node, reached, way)
        for node in work.seeds - moved.keys():
            yield from self._again(work, node)

    def _again(self, work: _Work, node: Node) -> Iterator[Told]:
        """What is told a second time although the asset stands where it stood: hidden by a deletion, or another value."""
        facts, cause = self._facts, work.cause
        standing = facts.reached(cause.id, node)
        if standing.reached is None or not standing.reached.depth:
            if standing.told.startswith(_READ_BACK):
                yield from self._stand(work, node, standing.reached, [])
        elif standing.told.startswith(_READ_BACK) or standing.version <= facts.asset(node).grave:
            yield from self._stand(work, node, standing.reached, self._way(cause, node))
        if standing.reached is None or standing.reached.depth:
            return
        if cause.origin == NOBODY:
            value = self._value(cause, node)
            for other in facts.reaching(cause.id, node):
                held = facts.reached(cause.id, other)
                if held.told != value and held.reached is not None:
                    yield from self._stand(work, other, held.reached, self._way(cause, other))

    def _way(self, cause: Cause, node: Node) -> list[Node]:
        way = [node]
        while (reached := self._facts.reached(cause.id, way[-1]).reached) is not None and reached.depth:
            way.append(reached.before)
        return way[::-1]

    def _stand(self, work: _Work, node: Node, reached: Reached | None, way: Sequence[Node]) -> Iterator[Told]:
        """Note where the asset stands by now, and say what that means for those who listen."""
        facts, cause = self._facts, work.cause
        asset, held = facts.asset(node), facts.reached(cause.id, node)
        known = held.told.startswith(_READ_BACK) or (held.reached is not None and held.reached.depth > 0)
        was = known and held.version > asset.grave
        now = reached is not None and reached.depth > 0
        if not was and not now:
            facts.keep(cause.id, node, Standing(reached, held.version))
            return
        here = reached if reached is not None and now else held.reached
        origin = cause.origin if cause.origin != NOBODY else here.origin if here is not None else node
        value = self._value(cause, origin) if now else ""
        if now and was and held.told == _digest((facts.asset(each).name for each in way), value):
            facts.keep(cause.id, node, Standing(reached, held.version, value))
            return
        told = Told(
            tenant=cause.tenant,
            rule=cause.rule,
            what=cause.what,
            is_property=cause.origin == NOBODY,
            asset=asset.name,
            origin=facts.asset(origin).name,
            way=tuple(facts.asset(each).name for each in way) if now else (),
            attached=now,
            value=orjson.loads(value) if value else None,
            trigger=work.trigger,
            after=max(held.version, asset.grave),
        )
        facts.keep(cause.id, node, Standing(reached, told.version, value))
        yield told

    def _value(self, cause: Cause, origin: Node) -> str:
        """The value that a property's source passes on, as JSON; nothing for tags."""
        if cause.origin != NOBODY:
            return ""
        return _json(self._facts.value(origin, cause.what))

    # --- what was told before -----------------------------------------------------------------------------------

    def _read_back(self, row: Row, trigger: Trigger, work: dict[int, _Work]) -> None:
        """Take up what was told, where the index does not know of it."""
        facts = self._facts
        kind, _, rest = row.register.partition(SEPARATOR)
        is_tag = kind == "tag"
        what = rest.partition(SEPARATOR)[0 if is_tag else 2]
        rule, origin_name = row.data.get("rule"), row.data.get("origin_asset")
        ours = Trigger.of(row.version).source == SOURCE
        if not ours or not isinstance(rule, str) or not isinstance(origin_name, str):
            return
        node = facts.id(row.tenant, row.subject)
        origin = facts.id(row.tenant, origin_name) if is_tag else NOBODY
        cause = self._cause(row.tenant, rule, what, origin)
        held = facts.reached(cause.id, node)
        if row.version <= held.version:
            return
        given = row.data.get("value") if not is_tag else None
        attached = row.type == ev.TAG_ATTACHED or given is not None
        told = (
            _digest(row.data.get("path") or (), _json(given) if not is_tag else "")
            if attached
            else _READ_BACK
        )
        if not attached and held.reached is None:
            told = ""
        facts.keep(cause.id, node, Standing(held.reached, row.version, told))
        work.setdefault(cause.id, _Work(cause, trigger)).add(node, trigger)


def _digest(way: Iterable[str], value: str) -> str:
    return _READ_BACK + blake2b("\x00".join([*way, value]).encode(), digest_size=8).hexdigest()


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
