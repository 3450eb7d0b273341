"""What a rule applies to, and what is told as assets and rules change: compared with looking at everything afresh."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from lily_common import events as ev
from lily_common.declaring import problems
from lily_common.enrichment.rules import Asset, EnrichmentRule, read, reason
from lily_common.envelope import accept
from lily_common.state import event_registers
from lily_spark.enrichment.index import Index
from lily_spark.enrichment.rounds import Rounds
from lily_spark.enrichment.telling import Told
from lily_spark.enrichment.worker import TOPIC
from lily_spark.propagation.facts import Row
from lily_spark.propagation.telling import Trigger

EMAIL = Asset(
    qualified_name="postgres://crm/public/people/Email",
    name="Email",
    asset_type="column",
    data_type="varchar(200)",
    terms=("Contact",),
    samples=("a@example.org", "b@example.org", "c@example.org", "none"),
)


def rule(name: str = "emails", **body: Any) -> EnrichmentRule:
    return read({"name": name, "tags": ["PII"], **body})


@pytest.mark.parametrize(
    ("when", "applies"),
    [
        ({"names": ["*email*"]}, True),
        ({"names": ["phone", "e?ail"]}, True),
        ({"names": ["mail"]}, False),
        ({"qualified_names": ["postgres://crm/*"]}, True),
        ({"qualified_names": ["postgres://erp/*"]}, False),
        ({"asset_types": ["column"], "data_types": ["varchar*"]}, True),
        ({"asset_types": ["table"], "data_types": ["varchar*"]}, False),
        ({"terms": ["cont*"]}, True),
        ({"terms": ["order"]}, False),
        ({"values": {"regex": r"[^@]+@[^@]+", "share": 0.75}}, True),
        ({"values": {"regex": r"[^@]+@[^@]+", "share": 0.8}}, False),
        ({"values": {"regex": r"[^@]+@[^@]+", "share": 0.5, "least": 5}}, False),
        ({"values": {"regex": "example"}}, False),
    ],
)
def test_what_it_applies_to(when: dict[str, Any], applies: bool) -> None:
    why = reason(rule(when=when), EMAIL)
    assert (why is not None) is applies
    assert why is None or "example.org" not in why


def test_a_disabled_rule_applies_to_nothing() -> None:
    assert reason(rule(when={"names": ["*"]}, enabled=False), EMAIL) is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"when": {}}, "names"),
        ({"when": {"values": {"regex": "("}}}, "regex"),
        ({"when": {"values": {"regex": "(a)\\1"}}}, "regex"),
        ({"when": {"values": {"regex": "a", "share": 2}}}, "when.values.share"),
        ({"when": {"names": ["x"]}, "tags": []}, "tags"),
        ({"when": {"names": ["x"]}, "tags": ["a|b"]}, "tags.0"),
        ({"when": {"names": ["x"]}, "action": "enforce"}, "action"),
    ],
)
def test_what_is_wrong_is_told_by_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as invalid:
        rule(**body)
    assert field in [name for name, _ in problems(invalid.value)]


def test_no_regular_expression_runs_for_ever() -> None:
    slow = rule(when={"values": {"regex": "(a+)+b", "least": 1}})
    assert reason(slow, EMAIL.model_copy(update={"samples": ("a" * 5_000,)})) is None


NAMES = ["email", "phone", "note"]
RULES = {
    "by-name": [{"names": ["e*"]}, {"names": ["*o*"]}],
    "by-type": [{"data_types": ["text"]}, {"asset_types": ["column"], "names": ["p*"]}],
    "by-term": [{"terms": ["Contact"]}],
}
STEPS = st.one_of(
    st.tuples(st.just("upsert"), st.sampled_from(NAMES), st.sampled_from(["text", "int"]), st.booleans()),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
    st.tuples(st.just("terms"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(
        st.just("rule"),
        st.sampled_from(sorted(RULES)),
        st.integers(0, 1),
        st.sampled_from(["attach", "suggest"]),
        st.booleans(),
    ),
    st.tuples(st.just("drop"), st.sampled_from(sorted(RULES))),
    st.tuples(st.just("lose")),
)


TWO_SUGGEST = [
    ("upsert", "email", "text", True),
    ("rule", "by-name", 0, "suggest", True),
    ("rule", "by-term", 0, "suggest", True),
]


class World:
    """An index, the rules, every register that was ever written, and what listeners would hold."""

    def __init__(self) -> None:
        self.index, self.rules = Index(":memory:"), {"acme": {}}  # type: dict[str, dict[str, EnrichmentRule]]
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)
        self.silver: dict[tuple[str, str], Row] = {}

    def rows(self, event: dict[str, Any]) -> list[Row]:
        accepted = accept("acme", event, self.moment, caller="tests")
        import orjson

        whole = orjson.loads(accepted.value)
        made = []
        for key, register in event_registers(whole).items():
            row = Row("acme", whole["subject"], key, register.type, register.version, register.data)
            held = self.silver.get((row.subject, key))
            assert held is None or held.version != row.version
            if held is None or row.version > held.version:
                self.silver[row.subject, key] = row
            made.append(row)
        return made

    def send(self, kind: str, **data: Any) -> None:
        self.moment += timedelta(seconds=1)
        event = {
            "specversion": "1.0",
            "id": str(self.moment),
            "source": "/t",
            "type": f"lily.{kind}",
            "time": self.moment.isoformat(),
            "data": data,
        }
        self.settle(self.rows(event))

    def settle(self, rows: list[Row]) -> None:
        self.tell(list(Rounds(self.index).take(rows, self.rules)))

    def tell(self, told: list[Told]) -> None:
        back = [row for one in told for row in self.rows(one.event)]
        assert [row.version for row in back] == [one.version for one in told]
        # What was told is read back, and nothing follows from it.
        assert list(Rounds(self.index).take(back, self.rules)) == []

    def change(self, name: str) -> None:
        self.moment += timedelta(seconds=1)
        trigger = Trigger(int(self.moment.timestamp() * 1_000_000), 0, TOPIC.source, str(self.moment))
        self.tell(list(Rounds(self.index).change("acme", name, self.rules, trigger)))

    def lose(self) -> None:
        self.index = Index(":memory:")
        Rounds(self.index).load(self.silver.values())
        for name in sorted({*self.rules["acme"], *(rule for _, rule in self.index.rules_given())}):
            self.change(name)

    def held(self) -> tuple[set[tuple[str, str, str]], set[tuple[str, str]]]:
        """(asset, rule, tag) of what is attached, (asset, tag) of what is suggested, in silver."""
        graves = {name: row.version for (name, key), row in self.silver.items() if key == "deleted"}
        attached, suggested = set(), set()
        for (name, key), row in self.silver.items():
            if row.version <= graves.get(name, ""):
                continue
            if key.startswith("tag|") and row.type == ev.TAG_ATTACHED:
                attached.add((name, row.data["origin"].partition(":")[2], row.data["tag"]))
            if key.startswith("field|suggested|") and row.data.get("set"):
                suggested.add((name, key.rpartition("|")[2]))
        return attached, suggested

    def wanted(self) -> tuple[set[tuple[str, str, str]], set[tuple[str, str]]]:
        attached, suggested = set(), set()
        for number in self.index.all_of("acme"):
            seen = self.index.seen(number)
            for one in self.rules["acme"].values() if seen is not None else ():
                if reason(one, seen) is None:
                    continue
                for tag in one.tags:
                    if one.action == "attach":
                        attached.add((seen.qualified_name, one.name, tag))
                    else:
                        suggested.add((seen.qualified_name, tag))
        return attached, suggested


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=25))
@example([*TWO_SUGGEST, ("drop", "by-name"), ("drop", "by-term")])
@example([*TWO_SUGGEST, ("drop", "by-term"), ("terms", "email", False), ("drop", "by-name")])
def test_what_is_held_is_what_the_rules_say(steps: list[Any]) -> None:
    world = World()
    for step, *what in steps:
        if step == "upsert":
            name, kind, termed = what
            terms = {"terms": ["Contact"]} if termed else {}
            qualified = f"db://h/t/{name}"
            world.send(
                "asset.upserted",
                qualified_name=qualified,
                asset_type="column",
                name=name,
                data_type=kind,
                **terms,
            )
        elif step == "delete":
            world.send("asset.deleted", qualified_name=f"db://h/t/{what[0]}")
        elif step == "terms":
            terms = ["Contact"] if what[1] else []
            world.send("term.changed", qualified_name=f"db://h/t/{what[0]}", terms=terms)
        elif step == "rule":
            name, number, action, enabled = what
            choices = RULES[name]
            world.rules["acme"][name] = rule(
                name, when=choices[number % len(choices)], action=action, enabled=enabled
            )
            world.change(name)
        elif step == "drop":
            world.rules["acme"].pop(what[0], None)
            world.change(what[0])
        else:
            world.lose()
        assert world.held() == world.wanted()
