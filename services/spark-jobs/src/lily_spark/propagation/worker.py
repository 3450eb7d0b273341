"""The thread of the lake job that propagates, and what it says of changes before they are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from lily_common.events import PROPAGATION_RULES_TOPIC
from lily_common.propagation.rules import Rule, read
from lily_spark.config import SparkSettings
from lily_spark.declared import Declared, Topic
from lily_spark.following import Follower, by_tenant
from lily_spark.propagation.facts import Facts
from lily_spark.propagation.preview import hypothetical, summary
from lily_spark.propagation.rounds import Rounds


def parse(value: bytes) -> Declared[Rule]:
    """Raises ValueError for what is no rule: the last good one of its key then holds."""
    return Declared[Rule].model_validate(orjson.loads(value))


TOPIC = Topic(PROPAGATION_RULES_TOPIC, "/lily/propagation-rules", "lily-lake-propagation-rules", parse)


class Propagator(Follower[Rule]):
    """Follows the registers and the rules of propagation."""

    def __init__(self, settings: SparkSettings) -> None:
        super().__init__(settings, "propagation", TOPIC)

    def preview(self, tenant: str, args: dict[str, Any]) -> dict[str, Any]:
        """What would be told if these changes were made, or this rule declared: nothing is kept of it.

        `args`: `changes` (events with type and data, as they would be sent) and `rule` (a declaration, or null). Raises
        InvalidInputError for what is no change.
        """
        with self._lock:
            declared = self._feed.current()
            rules, supposed = by_tenant(declared), by_tenant(declared)
            if args.get("rule"):
                rule = read(args["rule"])
                supposed.setdefault(tenant, {})[rule.name] = rule
            facts = self._open(supposed)
            rounds = Rounds(facts)
            with facts.transaction(keep=False):
                # A tenant whose first rule this would be is read for it, and forgotten again.
                known = {name: rules.get(name, {}) for name in supposed}
                for _ in self._due(facts, rounds, known, declared, self._silver.version()):
                    """What would be told anyhow is no part of the answer."""
                told = list(rounds.take(hypothetical(tenant, args.get("changes") or []), supposed))
                if args.get("rule"):
                    told += rounds.change(tenant, rule.name, supposed, TOPIC.trigger(rule.name, None))
        return summary(told)

    def _open(self, rules: Mapping[str, Mapping[str, Rule]]) -> Facts:
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

    def _rounds(self, facts: Facts) -> Rounds:
        return Rounds(facts)

    def _told_of(self, facts: Facts) -> list[tuple[str, str]]:
        return facts.rules_held()
