"""The thread of the lake job that enriches: follows silver.assets and the rules, a round at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from lily_common.compacted import Compacted
from lily_common.enrichment.rules import Rule
from lily_common.events import ENRICHMENT_RULES_TOPIC
from lily_common.logs import get_logger
from lily_spark.config import SparkSettings
from lily_spark.enrichment.index import Index
from lily_spark.enrichment.registry import GROUP, Declared, gone, parse
from lily_spark.enrichment.rounds import Rounds, Rules
from lily_spark.enrichment.telling import Told
from lily_spark.following import Follower
from lily_spark.propagation.facts import Row
from lily_spark.propagation.publishing import Publisher
from lily_spark.propagation.silver import Silver

log = get_logger(__name__)
#: Notes of the index: silver's version that it stands at, and the rules as it took them.
_VERSION, _RULE = "version", "rule|"


class Enricher(Follower):
    """Follows the registers and the rules of enrichment."""

    def __init__(self, settings: SparkSettings) -> None:
        super().__init__(settings, "enrichment")
        self._silver = Silver(settings)
        self._feed = Compacted(settings.kafka_bootstrap, ENRICHMENT_RULES_TOPIC, GROUP, parse)
        self._publisher = Publisher(settings.kafka_bootstrap, "lily:enrichment")

    def _look(self) -> None:
        declared = self._feed.current()
        if not declared and self._held is None and not self._path.exists():
            return
        index = self._open()
        noted, last = index.noted(_VERSION), self._silver.version()
        if noted == last and not _changed(index, declared):
            return
        rules: dict[str, dict[str, Rule]] = {}
        for one in declared.values():
            rules.setdefault(one.tenant, {})[one.name] = one.declaration
        index.trim()
        rounds = Rounds(index)
        with index.transaction():
            names = self._catch_up(index, rounds, rules, declared, last)
            told: Iterator[Told] = chain(
                rounds.take(self._since(index, noted, last), rules),
                *(_change(index, rounds, rules, name, declared.get(name)) for name in names),
            )
            sent = self._publisher.send(told)
            index.note(_VERSION, last)
        if sent:
            log.info("enriched", events=sent, version=last, rules=len(names))

    def _catch_up(
        self, index: Index, rounds: Rounds, rules: Rules, declared: Mapping[str, Declared], version: int
    ) -> list[str]:
        """Load the tenants that the index does not know of; returns the rules to look at (`tenant|name`)."""
        new = rules.keys() - _tenants(index)
        for tenant in new:
            log.info("enrichment reads all of a tenant", tenant=tenant, version=version)
            rounds.load(self._silver.all(version, tenant))
        left = {f"{tenant}|{rule}" for tenant, rule in index.rules_given() if tenant in new}
        return sorted(_changed(index, declared) | (left - declared.keys()))

    def _since(self, index: Index, noted: int | None, last: int) -> Iterator[Row]:
        """What was appended for tenants that the index knows of; an index made anew has just read it all."""
        return iter(()) if noted is None else self._silver.since(noted, last, _tenants(index))

    def _open(self) -> Index:
        if not isinstance(self._held, Index):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._held = Index(self._path)
        return self._held


def _change(index: Index, rounds: Rounds, rules: Rules, name: str, now: Declared | None) -> Iterator[Told]:
    tenant, _, rule = name.partition("|")
    yield from rounds.change(tenant, rule, rules, now.trigger if now else gone(rule))
    index.note(_RULE + name, now.text if now else "")


def _changed(index: Index, declared: Mapping[str, Declared]) -> set[str]:
    """Rules (`tenant|name`) that are not as the index took them, or that are no more."""
    noted = {name[len(_RULE) :]: str(text) for name, text in index.notes(_RULE)}
    changed = {name for name, one in declared.items() if noted.get(name) != one.text}
    return changed | {name for name, text in noted.items() if text and name not in declared}


def _tenants(index: Index) -> frozenset[str]:
    """Tenants that the index knows of: those that ever had a rule since it was made."""
    return frozenset(name[len(_RULE) :].split("|", 1)[0] for name, _ in index.notes(_RULE))
