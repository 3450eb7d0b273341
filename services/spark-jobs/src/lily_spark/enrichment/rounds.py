"""A round: registers and changes of rules in, what is to be told out. Pure but for the index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lily_common.enrichment.rules import EnrichmentRule, reason
from lily_spark.enrichment.index import Index
from lily_spark.enrichment.telling import Told
from lily_spark.propagation.facts import Row
from lily_spark.propagation.telling import Trigger

#: tenant -> name -> rule
Rules = Mapping[str, Mapping[str, EnrichmentRule]]


class Rounds:
    """Over one index."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def load(self, rows: Iterable[Row]) -> None:
        """Take in registers without saying what follows."""
        for row in rows:
            self._index.take_back(row)
            self._index.take(row)

    def take(self, rows: Iterable[Row], rules: Rules) -> Iterator[Told]:
        """Take in these registers and say what is to be told on their account."""
        dirty: dict[int, Trigger] = {}
        for row in rows:
            trigger = Trigger.of(row.version)
            self._index.take_back(row)
            self._index.take(row)
            # How an asset looks is its own registers' matter; that one is there at all may be what is new.
            number = self._index.id(row.tenant, row.subject)
            dirty[number] = max(dirty.get(number, trigger), trigger)
        for number, trigger in dirty.items():
            tenant = self._index.asset(number).tenant
            held = rules.get(tenant, {})
            for name in {*held, *(given.rule for given in self._index.given(number))}:
                yield from self._look(number, name, held.get(name), trigger)

    def change(self, tenant: str, name: str, rules: Rules, trigger: Trigger) -> Iterator[Told]:
        """What follows from the rule `name` being as it is now, or gone."""
        rule = rules.get(tenant, {}).get(name)
        for number in self._index.all_of(tenant):
            yield from self._look(number, name, rule, trigger)

    def _look(self, number: int, name: str, rule: EnrichmentRule | None, trigger: Trigger) -> Iterator[Told]:
        """What the asset has by the rule, made what it should have."""
        seen = self._index.seen(number)
        if seen is None:
            return
        why = reason(rule, seen) if rule is not None else None
        wanted = {(tag, rule.action) for tag in rule.tags} if rule is not None and why is not None else set()
        held = {(given.tag, given.action) for given in self._index.given(number, name)}
        for tag, action in sorted(held - wanted):
            yield from self._tell(number, name, tag, action, None, trigger)
        for tag, action in sorted(wanted - held):
            yield from self._tell(number, name, tag, action, why, trigger)

    def _tell(
        self, number: int, rule: str, tag: str, action: str, why: str | None, trigger: Trigger
    ) -> Iterator[Told]:
        asset = self._index.asset(number)
        after = max(self._index.last(number, rule, tag, action), asset.grave)
        if action == "suggest":
            # All rules that suggest a tag write the same field.
            others = [one for one in self._index.given(number) if (one.tag, one.action) == (tag, action)]
            after = max([after, *(one.version for one in others)])
            if why is None and any(one.rule != rule for one in others):
                self._index.withdraw(number, rule, tag, action)
                return
        told = Told(asset.tenant, rule, tag, action, asset.name, why, trigger, after)
        self._index.give(number, rule, tag, action, told.version, live=why is not None)
        yield told
