"""A thread of the lake job that follows silver.assets and a kind of rules, a round at a time.

A round is taken in and told in one transaction of an index on the local disk: what follows is published first, then the
index notes how far it has come. A crash in between repeats the round; the same events are then told again under the same
ids, or read back.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from pydantic import BaseModel

from lily_common.compacted import Compacted
from lily_common.errors import UnavailableError
from lily_common.logs import get_logger
from lily_common.metrics import FOLLOWER_VERSION
from lily_spark.config import SparkSettings
from lily_spark.declared import Declared, Topic
from lily_spark.propagation.facts import Facts, Row
from lily_spark.propagation.publishing import Publisher, Told
from lily_spark.propagation.silver import Silver
from lily_spark.propagation.telling import Trigger
from lily_spark.storage.snapshots import TooManyChangesError, VersionGoneError

log = get_logger(__name__)
_LOOK_SECONDS = 1.0
_RETRY_SECONDS = 2.0
#: Notes of an index: silver's version that it stands at, and the rules as it took them.
_VERSION, _RULE = "version", "rule|"
Rule = TypeVar("Rule", bound=BaseModel)
TakenRule_contra = TypeVar("TakenRule_contra", bound=BaseModel, contravariant=True)


class Rounds(Protocol[TakenRule_contra]):
    """What follows from registers and rules, over one index."""

    def load(self, rows: Iterable[Row]) -> None:
        """Take in registers without saying what follows."""

    def take(
        self, rows: Iterable[Row], rules: Mapping[str, Mapping[str, TakenRule_contra]]
    ) -> Iterator[Told]:
        """Take in these registers and say what is to be told on their account."""

    def change(
        self, tenant: str, name: str, rules: Mapping[str, Mapping[str, TakenRule_contra]], trigger: Trigger
    ) -> Iterator[Told]:
        """What follows from the rule `name` being as it is now, or gone."""


class Follower(ABC, Generic[Rule]):
    """Owns the index `<name>.db` beside the checkpoints. `wake` is for whoever appends to silver."""

    def __init__(self, settings: SparkSettings, name: str, topic: Topic[Rule]) -> None:
        self._name = name
        self._topic = topic
        self._path = settings.checkpoint("lake", f"{name}.db")
        self._silver = Silver(settings)
        self._feed = Compacted(settings.kafka_bootstrap, topic.name, topic.group, topic.parse)
        self._publisher = Publisher(settings.kafka_bootstrap, f"lily:{name}")
        self._held: Facts | None = None
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 20.0) -> None:
        """End after the round at hand; one that is cut off is taken again."""
        self._stopping.set()
        self._woken.set()
        self._thread.join(seconds)

    def wake(self) -> None:
        """Silver has more."""
        self._woken.set()

    def forget(self) -> None:
        """Make the index anew at the next round: what it holds may have been erased."""
        with self._lock:
            self._drop()
        self._woken.set()

    @abstractmethod
    def _open(self, rules: Mapping[str, Mapping[str, Rule]]) -> Facts:
        """The index that these rules (by tenant and name) need, kept in `_held`."""

    @abstractmethod
    def _rounds(self, facts: Facts) -> Rounds[Rule]: ...

    @abstractmethod
    def _told_of(self, facts: Facts) -> list[tuple[str, str]]:
        """(tenant, rule) of all of which the index knows that something was told."""

    # --- the thread -------------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._lock:
                    self._look()
            except UnavailableError as away:
                log.warning("a follower waits", name=self._name, error=str(away)[:300])
                self._stopping.wait(_RETRY_SECONDS)
            except Exception:
                if not self._stopping.is_set():
                    log.exception("a round failed and is taken again", name=self._name)
                    self._stopping.wait(_RETRY_SECONDS)
            self._woken.wait(_LOOK_SECONDS)
            self._woken.clear()

    def _look(self) -> None:
        declared = self._feed.current()
        if not declared and self._held is None and not self._path.exists():
            return
        rules = by_tenant(declared)
        facts = self._open(rules)
        try:
            self._round(facts, self._rounds(facts), rules, declared)
        except (VersionGoneError, TooManyChangesError) as gone_by:
            log.warning("an index is made anew", name=self._name, reason=str(gone_by)[:300])
            self._drop()
            self._woken.set()

    def _round(
        self,
        facts: Facts,
        rounds: Rounds[Rule],
        rules: Mapping[str, Mapping[str, Rule]],
        declared: Mapping[str, Declared[Rule]],
    ) -> None:
        noted, last = facts.noted(_VERSION), self._silver.version()
        if noted == last and not _changed(facts, declared):
            return
        facts.trim()
        with facts.transaction():
            sent = self._publisher.send(self._due(facts, rounds, rules, declared, last))
            facts.note(_VERSION, last)
        FOLLOWER_VERSION.labels(self._name).set(last)
        if sent:
            log.info("told", name=self._name, events=sent, version=last)

    def _due(
        self,
        facts: Facts,
        rounds: Rounds[Rule],
        rules: Mapping[str, Mapping[str, Rule]],
        declared: Mapping[str, Declared[Rule]],
        last: int,
    ) -> Iterator[Told]:
        """What is to be told by silver's version `last`, on account of its registers and of changed rules."""
        noted = facts.noted(_VERSION)
        new = rules.keys() - _tenants(facts)
        for tenant in new:
            log.info("all of a tenant is read", name=self._name, tenant=tenant, version=last)
            rounds.load(self._silver.all(last, tenant))
        left = {f"{tenant}|{rule}" for tenant, rule in self._told_of(facts) if tenant in new}
        names = sorted(_changed(facts, declared) | (left - declared.keys()))
        # An index made anew has just read it all.
        rows = iter(()) if noted is None else self._silver.since(noted, last, _tenants(facts))
        changes = (self._change(facts, rounds, rules, name, declared.get(name)) for name in names)
        return chain(rounds.take(rows, rules), chain.from_iterable(changes))

    def _change(
        self,
        facts: Facts,
        rounds: Rounds[Rule],
        rules: Mapping[str, Mapping[str, Rule]],
        name: str,
        now: Declared[Rule] | None,
    ) -> Iterator[Told]:
        tenant, _, rule = name.partition("|")
        yield from rounds.change(tenant, rule, rules, self._topic.trigger(rule, now))
        facts.note(_RULE + name, now.text if now else "")

    def _drop(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)


def by_tenant(declared: Mapping[str, Declared[Rule]]) -> dict[str, dict[str, Rule]]:
    """tenant -> name -> rule"""
    rules: dict[str, dict[str, Rule]] = {}
    for one in declared.values():
        rules.setdefault(one.tenant, {})[one.name] = one.declaration
    return rules


def _changed(facts: Facts, declared: Mapping[str, Declared[Rule]]) -> set[str]:
    """Rules (`tenant|name`) that are not as the index took them, or that are no more."""
    noted = {name[len(_RULE) :]: str(text) for name, text in facts.notes(_RULE)}
    changed = {name for name, one in declared.items() if noted.get(name) != one.text}
    return changed | {name for name, text in noted.items() if text and name not in declared}


def _tenants(facts: Facts) -> frozenset[str]:
    """Tenants that the index knows of: those that ever had a rule since it was made."""
    return frozenset(name[len(_RULE) :].split("|", 1)[0] for name, _ in facts.notes(_RULE))
