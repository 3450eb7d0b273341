"""The thread of the lake job that propagates: follows silver.assets and the rules, a round at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from lily_common.logs import get_logger
from lily_common.metrics import PROPAGATION_VERSION
from lily_common.propagation.rules import Rule, read
from lily_spark.config import SparkSettings
from lily_spark.following import Follower
from lily_spark.propagation.facts import Facts, Row
from lily_spark.propagation.preview import hypothetical, summary
from lily_spark.propagation.publishing import Publisher
from lily_spark.propagation.registry import Declared, RuleFeed, gone
from lily_spark.propagation.rounds import Rounds, Rules
from lily_spark.propagation.silver import Silver
from lily_spark.propagation.telling import Told

log = get_logger(__name__)
#: Notes of the index: silver's version that it stands at, and the rules as it took them.
_VERSION, _RULE = "version", "rule|"


class Propagator(Follower):
    """Follows the registers and the rules of propagation."""

    def __init__(self, settings: SparkSettings) -> None:
        super().__init__(settings, "propagation")
        self._silver = Silver(settings)
        self._feed = RuleFeed.open(settings.kafka_bootstrap)
        self._publisher = Publisher(settings.kafka_bootstrap, "lily:propagation")

    def preview(self, tenant: str, args: dict[str, Any]) -> dict[str, Any]:
        """What would be told if these changes were made, or this rule declared: nothing is kept of it.

        `args`: `changes` (events with type and data, as they would be sent) and `rule` (a declaration, or null). Raises
        InvalidInputError for what is no change.
        """
        with self._lock:
            declared = self._feed.current()
            rules, supposed = _by_tenant(declared), _by_tenant(declared)
            if args.get("rule"):
                rule = read(args["rule"])
                supposed.setdefault(tenant, {})[rule.name] = rule
            facts = self._open(supposed)
            rounds = Rounds(facts)
            noted, last = facts.noted(_VERSION), self._silver.version()
            with facts.transaction(keep=False):
                names = self._catch_up(facts, rounds, supposed, declared, last)
                waiting = rounds.take(self._since(facts, noted, last), rules)
                changed = (self._change(facts, rounds, rules, name, declared.get(name)) for name in names)
                for _ in chain(waiting, *changed):
                    """What would be told anyhow is no part of the answer."""
                told = list(rounds.take(hypothetical(tenant, args.get("changes") or []), supposed))
                if args.get("rule"):
                    told += rounds.change(tenant, rule.name, supposed, gone(rule.name))
        return summary(told)

    def _look(self) -> None:
        declared = self._feed.current()
        rules = _by_tenant(declared)
        if rules or self._held is not None or self._path.exists():
            facts = self._open(rules)
            self._round(facts, Rounds(facts), rules, declared)

    def _round(self, facts: Facts, rounds: Rounds, rules: Rules, declared: Mapping[str, Declared]) -> None:
        noted, last = facts.noted(_VERSION), self._silver.version()
        if noted == last and not _changed(facts, declared):
            return
        facts.trim()
        with facts.transaction():
            names = self._catch_up(facts, rounds, rules, declared, last)
            told: Iterator[Told] = chain(
                rounds.take(self._since(facts, noted, last), rules),
                *(self._change(facts, rounds, rules, name, declared.get(name)) for name in names),
            )
            sent = self._publisher.send(told)
            facts.note(_VERSION, last)
        PROPAGATION_VERSION.set(last)
        if sent:
            log.info("propagated", events=sent, version=last, rules=len(names))

    def _catch_up(
        self, facts: Facts, rounds: Rounds, rules: Rules, declared: Mapping[str, Declared], version: int
    ) -> list[str]:
        """Load the tenants that the index does not know of; returns the rules to look at (`tenant|name`)."""
        new = rules.keys() - _tenants(facts)
        for tenant in new:
            log.info("propagation reads all of a tenant", tenant=tenant, version=version)
            rounds.load(self._silver.all(version, tenant))
        left = {f"{tenant}|{rule}" for tenant, rule in facts.rules_held() if tenant in new}
        return sorted(_changed(facts, declared) | (left - declared.keys()))

    def _since(self, facts: Facts, noted: int | None, last: int) -> Iterator[Row]:
        """What was appended for tenants that the index knows of; an index made anew has just read it all."""
        return iter(()) if noted is None else self._silver.since(noted, last, _tenants(facts))

    def _change(
        self, facts: Facts, rounds: Rounds, rules: Rules, name: str, now: Declared | None
    ) -> Iterator[Told]:
        tenant, _, rule = name.partition("|")
        yield from rounds.change(tenant, rule, rules, now.trigger if now else gone(rule))
        facts.note(_RULE + name, now.text if now else "")

    def _open(self, rules: Rules) -> Facts:
        """The index, made anew when it does not know of a property that travels now."""
        wanted = {rule.property for held in rules.values() for rule in held.values() if rule.property}
        if self._held is not None and not wanted <= self._held.properties:
            self._drop()
        if self._held is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._held = Facts(self._path, frozenset(wanted))
            if not wanted <= self._held.properties:
                self._drop()
                self._held = Facts(self._path, frozenset(wanted))
        return self._held


def _by_tenant(declared: Mapping[str, Declared]) -> dict[str, dict[str, Rule]]:
    rules: dict[str, dict[str, Rule]] = {}
    for one in declared.values():
        rules.setdefault(one.tenant, {})[one.name] = one.declaration
    return rules


def _changed(facts: Facts, declared: Mapping[str, Declared]) -> set[str]:
    """Rules (`tenant|name`) that are not as the index took them, or that are no more."""
    noted = _noted(facts)
    changed = {name for name, one in declared.items() if noted.get(name) != one.text}
    return changed | {name for name, text in noted.items() if text and name not in declared}


def _noted(facts: Facts) -> dict[str, str]:
    """The rules as the index took them; "" for those that are no more."""
    return {name[len(_RULE) :]: str(text) for name, text in facts.notes(_RULE)}


def _tenants(facts: Facts) -> frozenset[str]:
    """Tenants that the index knows of: those that ever had a rule since it was made."""
    return frozenset(name.split("|", 1)[0] for name in _noted(facts))
