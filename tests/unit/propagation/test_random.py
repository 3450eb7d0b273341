"""Propagation against brute force: any events in any order and grouping, crashes in between, the same end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import orjson
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.propagation import oracle

from lily_common import events as ev
from lily_common.envelope import accept
from lily_common.propagation.rules import Rule
from lily_common.state import register_keys
from lily_spark.propagation.facts import Facts, Row
from lily_spark.propagation.rounds import Rounds
from lily_spark.propagation.telling import Told, Trigger

_START = datetime(2026, 1, 1, tzinfo=UTC)
_TABLES = ["db://h/t1", "db://h/t2", "db://h/t3"]
_COLUMNS = [f"{table}/{column}" for table in _TABLES for column in "ab"]
_NAMES = [*_TABLES, *_COLUMNS]
names = st.sampled_from(_NAMES)
tags = st.sampled_from(["PII", "GDPR", "Public"])
#: Seconds: events come with older and newer times than those before them.
times = st.integers(0, 40)
owners = st.sampled_from([["ann"], ["bob"], ["ann", "bob"], []])
ways = st.lists(st.sampled_from(["table", "column", "children"]), min_size=1, max_size=3, unique=True)
bodies = st.fixed_dictionaries(
    {
        "along": ways,
        "max_depth": st.sampled_from([1, 2, 3, 20]),
        "through": st.sampled_from([None, None, ["column"], ["table", "column"]]),
        "stop_at": st.sampled_from([[], ["Public"], ["P*"]]),
        "enabled": st.sampled_from([True, True, True, False]),
    }
)
rule_names = st.sampled_from(["r1", "r2"])


def rows_of(event: dict[str, Any]) -> list[Row]:
    keys = register_keys(event["type"], event["source"], event["data"])
    return [
        Row(event["tenantid"], event["subject"], key, event["type"], event["stateversion"], event["data"])
        for key in keys
    ]


class Propagation(RuleBasedStateMachine):
    """Events wait in `arrived` until a round takes them; what a round tells goes among the events, and comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.facts = Facts(":memory:", frozenset({"owners", "domain"}))
        self.rounds = Rounds(self.facts)
        self.rules: dict[str, Rule] = {}
        self.changed: list[tuple[str, Trigger]] = []
        self.events: list[dict[str, Any]] = []
        self.arrived: list[Row] = []
        self.numbers = count()

    @initialize(body=bodies)
    def begin(self, body: dict[str, Any]) -> None:
        self._declare("r1", {"classifications": ["PII", "G*"], **body, "enabled": True})
        for name in _NAMES:
            table, _, column = name.removeprefix("db://h/").partition("/")
            parent = {"parent": f"db://h/{table}"} if column else {}
            kind = "column" if column else "table"
            self._event(ev.ASSET_UPSERTED, 0, {"qualified_name": name, "asset_type": kind, **parent})

    def _event(self, kind: str, time: int, data: dict[str, Any], **more: Any) -> None:
        event = {
            "specversion": "1.0",
            "id": f"e{next(self.numbers)}",
            "source": "/test",
            "type": kind,
            "data": data,
        }
        self._accept(event | {"time": (_START + timedelta(seconds=time)).isoformat()} | more)

    def _accept(self, event: dict[str, Any]) -> None:
        accepted = orjson.loads(accept("t", event, _START + timedelta(hours=1)).value)
        self.events.append(accepted)
        self.arrived += rows_of(accepted)

    def _declare(self, name: str, body: dict[str, Any]) -> None:
        self.rules[name] = Rule.model_validate({"name": name, **body})
        self.changed.append((name, self._trigger(name)))

    def _trigger(self, name: str) -> Trigger:
        return Trigger(int(_START.timestamp() * 1e6) + 10_000_000, 0, "/rules", f"{name}{next(self.numbers)}")

    # --- what happens -------------------------------------------------------------------------------------------------

    @rule(name=names, tag=tags, time=times, origin=st.sampled_from(["direct", "direct", "scan"]))
    def attach(self, name: str, tag: str, time: int, origin: str) -> None:
        self._event(ev.TAG_ATTACHED, time, {"qualified_name": name, "tag": tag, "origin": origin})

    @rule(name=names, tag=tags, time=times, origin=st.sampled_from(["direct", "direct", "scan"]))
    def detach(self, name: str, tag: str, time: int, origin: str) -> None:
        self._event(ev.TAG_DETACHED, time, {"qualified_name": name, "tag": tag, "origin": origin})

    @rule(
        up=names,
        down=names,
        time=times,
        kind=st.sampled_from(["table", "column"]),
        via=st.sampled_from([None, "j://x"]),
    )
    def add_edge(self, up: str, down: str, time: int, kind: str, via: str | None) -> None:
        self._event(ev.EDGE_ADDED, time, {"upstream": up, "downstream": down, "kind": kind, "via": via})

    @rule(up=names, down=names, time=times, via=st.sampled_from([None, "j://x"]))
    def remove_edge(self, up: str, down: str, time: int, via: str | None) -> None:
        self._event(ev.EDGE_REMOVED, time, {"upstream": up, "downstream": down, "via": via})

    @rule(name=names, time=times)
    def delete(self, name: str, time: int) -> None:
        self._event(ev.ASSET_DELETED, time, {"qualified_name": name})

    @rule(
        name=names,
        time=times,
        kind=st.sampled_from(["table", "column", "view"]),
        parent=st.none() | names,
        more=st.fixed_dictionaries(
            {}, optional={"owners": owners, "properties": st.just({"domain": "sales"})}
        ),
    )
    def upsert(self, name: str, time: int, kind: str, parent: str | None, more: dict[str, Any]) -> None:
        data = {"qualified_name": name, "asset_type": kind, "parent": parent, **more}
        self._event(ev.ASSET_UPSERTED, time, data)

    @rule(name=names, time=times, parent=st.none() | names)
    def move(self, name: str, time: int, parent: str | None) -> None:
        patch: dict[str, Any] = {"set": {"parent": parent}} if parent else {"unset": ["parent"]}
        self._event(ev.ASSET_PATCHED, time, {"qualified_name": name, **patch})

    @rule(name=names, time=times, owners=owners)
    def own(self, name: str, time: int, owners: list[str]) -> None:
        self._event(ev.OWNER_CHANGED, time, {"qualified_name": name, "owners": owners})

    @rule(name=names, time=times, domain=st.sampled_from([None, "sales", "hr"]))
    def assign(self, name: str, time: int, domain: str | None) -> None:
        patch: dict[str, Any] = {"set": {"domain": domain}} if domain else {"unset": ["domain", "properties"]}
        self._event(ev.ASSET_PATCHED, time, {"qualified_name": name, **patch})

    @rule(name=rule_names, body=bodies, patterns=st.sampled_from([["PII"], ["*"], ["G*", "PII"]]))
    def declare(self, name: str, body: dict[str, Any], patterns: Sequence[str]) -> None:
        self._declare(name, {"classifications": patterns, **body})

    @rule(body=bodies, prop=st.sampled_from(["owners", "domain"]))
    def declare_property(self, body: dict[str, Any], prop: str) -> None:
        self._declare("r3", {"property": prop, **body})

    @rule(name=rule_names | st.just("r3"))
    def withdraw(self, name: str) -> None:
        if self.rules.pop(name, None) is not None:
            self.changed.append((name, self._trigger(name)))

    # --- rounds -------------------------------------------------------------------------------------------------------

    @rule(back=st.randoms(use_true_random=False))
    def shuffle(self, back: Any) -> None:
        """Rows may come in any order: each row is a register with a version."""
        back.shuffle(self.arrived)

    @rule()
    def crash_after_telling(self) -> None:
        """Told, and then the index lost what it had done: the same rows come again, and more with them."""
        with self.facts.transaction(keep=False):
            told = self._take(list(self.arrived), list(self.changed))
        self._tell(told)

    @rule()
    def lose_index(self) -> None:
        """The index is made anew from what the lake holds; the rest comes after."""
        self.facts.close()
        self.facts = Facts(":memory:", frozenset({"owners", "domain"}))
        self.rounds = Rounds(self.facts)
        lost = [row for event in self.events for row in rows_of(event)]
        waiting = {(row.subject, row.register, row.version) for row in self.arrived}
        self.rounds.load([row for row in lost if (row.subject, row.register, row.version) not in waiting])
        self.changed = [
            (name, self._trigger(name))
            for name in {*self.rules, *(rule for _tenant, rule in self.facts.rules_held())}
        ]

    @rule()
    def go(self) -> None:
        self._settle()

    def _take(self, rows: list[Row], changed: list[tuple[str, Trigger]]) -> list[Told]:
        rules = {"t": self.rules}
        told: list[Told] = []
        for name, trigger in changed:
            told += self.rounds.change("t", name, rules, trigger)
        return [*told, *self.rounds.take(rows, rules)]

    def _tell(self, told: list[Told]) -> None:
        known = {(event["source"], event["id"]) for event in self.events}
        for each in told:
            event = each.event
            if (event["source"], event["id"]) not in known:
                self._accept(event)
                assert self.events[-1]["stateversion"] == each.version

    def _settle(self) -> None:
        for _ in range(50):
            if not self.arrived and not self.changed:
                return
            rows, changed = self.arrived, self.changed
            self.arrived, self.changed = [], []
            with self.facts.transaction():
                told = self._take(rows, changed)
            self._tell(told)
        raise AssertionError("rounds do not come to an end")

    @invariant()
    def agrees(self) -> None:
        if self.arrived or self.changed:
            return
        estate = oracle.Estate.of(self.events)
        tags, values = oracle.told(self.events)
        assert tags == oracle.tags(estate, self.rules)
        assert values == oracle.values(estate, self.rules)

    def teardown(self) -> None:
        self._settle()
        self.agrees()
        self.facts.close()


TestPropagation = Propagation.TestCase
TestPropagation.settings = settings(
    max_examples=400, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
