"""The convergence rule: whatever order, grouping and repetition, the state ends the same."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from lily_common.envelope import accept, state_version
from lily_common.state import Register, assemble, event_registers, fold, merge

ASSET = "postgres://shop/public/customers"
START = datetime(2026, 1, 1, tzinfo=UTC)


def event(kind: str, minute: int, event_id: str, **data: Any) -> dict[str, Any]:
    raw = {
        "specversion": "1.0",
        "id": event_id,
        "source": "urn:test",
        "type": f"lily.{kind}",
        "time": (START + timedelta(minutes=minute)).isoformat(),
        "data": {"qualified_name": ASSET, **data},
    }
    return dict(orjson.loads(accept("acme", raw, START + timedelta(days=1)).value))


names = st.sampled_from(["description", "owners", "colour"])
values = st.sampled_from(["a", "b", None])


@st.composite
def events(draw: st.DrawFn) -> list[dict[str, Any]]:
    made = []
    for number in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(["upsert", "patch", "delete", "attach", "detach", "incident"]))
        minute = draw(st.integers(0, 5))
        made.append(_one(draw, kind, minute, f"e{number}"))
    return made


def _one(draw: st.DrawFn, kind: str, minute: int, event_id: str) -> dict[str, Any]:
    if kind == "upsert":
        extra = draw(st.dictionaries(names, st.sampled_from(["x", "y"]), max_size=2))
        extra.pop("owners", None)
        return event("asset.upserted", minute, event_id, asset_type="table", **extra)
    if kind == "patch":
        unset = draw(st.lists(names, max_size=1))
        return event(
            "asset.patched",
            minute,
            event_id,
            set=draw(st.dictionaries(names, values, max_size=2)),
            unset=unset,
        )
    if kind == "delete":
        return event("asset.deleted", minute, event_id)
    if kind == "incident":
        return event("incident.opened", minute, event_id, incident_id="i", title="late")
    name = "classification.attached" if kind == "attach" else "classification.detached"
    origin = draw(st.sampled_from(["direct", "rule-1"]))
    return event(name, minute, event_id, tag="PII", origin=origin)


@given(events(), st.randoms(use_true_random=False))
def test_any_order_grouping_and_repetition_ends_in_the_same_state(
    given_events: list[dict[str, Any]], chance: random.Random
) -> None:
    arrivals = given_events + chance.choices(given_events, k=len(given_events))
    chance.shuffle(arrivals)
    cut = chance.randrange(len(arrivals) + 1)
    expected = fold(given_events)
    assert fold(arrivals) == expected
    assert merge(fold(arrivals[cut:]), fold(arrivals[:cut])) == expected
    assert assemble(fold(arrivals)) == assemble(expected)


def test_an_upsert_clears_older_fields_of_its_aspect_only() -> None:
    state = assemble(
        fold(
            [
                event("asset.upserted", 1, "a", asset_type="table", description="old", colour="red"),
                event("asset.patched", 2, "b", set={"owners": ["ann"]}),
                event("asset.patched", 2, "c", aspect="quality", set={"score": 3}),
                event("asset.upserted", 3, "d", asset_type="table", description="new"),
            ]
        )
    )
    assert state.core == {"asset_type": "table", "description": "new"}
    assert state.fields["quality"] == {"score": 3}


def test_a_patch_keeps_what_it_does_not_name_and_null_does_not_erase() -> None:
    state = assemble(
        fold(
            [
                event("asset.upserted", 1, "a", asset_type="table", description="kept", data_type="t"),
                event("asset.patched", 2, "b", set={"description": None, "name": "n"}, unset=["data_type"]),
            ]
        )
    )
    assert state.core["description"] == "kept"
    assert state.core["name"] == "n"
    assert "data_type" not in state.core


def test_a_late_older_event_resurrects_nothing() -> None:
    registers = fold([event("asset.upserted", 1, "a", asset_type="table"), event("asset.deleted", 5, "b")])
    late = event_registers(event("classification.attached", 3, "c", tag="PII"))
    state = assemble(merge(registers, late))
    assert state.deleted
    assert not state.exists
    assert state.tags == {}


def test_a_tag_that_comes_before_its_asset_makes_a_partial_asset() -> None:
    state = assemble(fold([event("classification.attached", 1, "a", tag="PII")]))
    assert state.exists
    assert state.partial
    assert state.tags == {"PII": [{"origin": "direct", "origin_kind": "direct"}]}


def test_two_origins_keep_a_tag_until_the_last_is_gone() -> None:
    history = [
        event("classification.attached", 1, "a", tag="PII"),
        event("classification.attached", 2, "b", tag="PII", origin="lineage:x"),
        event("classification.detached", 3, "c", tag="PII"),
    ]
    assert [origin["origin"] for origin in assemble(fold(history)).tags["PII"]] == ["lineage:x"]
    history.append(event("classification.detached", 4, "d", tag="PII", origin="lineage:x"))
    assert assemble(fold(history)).tags == {}


version_parts = st.tuples(
    st.timedeltas(timedelta(0), timedelta(days=40_000)).map(
        lambda since: datetime(1970, 1, 1, tzinfo=UTC) + since
    ),
    st.integers(0, 10**20 - 1),
    st.text(st.characters(min_codepoint=0x21, exclude_categories=["Cs"]), min_size=1, max_size=5),
    st.text(st.characters(min_codepoint=0x20, exclude_categories=["Cs"]), min_size=1, max_size=5),
)


@given(version_parts, version_parts)
def test_versions_sort_as_their_parts_do(
    one: tuple[datetime, int, str, str], other: tuple[datetime, int, str, str]
) -> None:
    a, b = state_version(*one).encode(), state_version(*other).encode()
    parts_a = (one[0], one[1], one[2].encode(), one[3].encode())
    parts_b = (other[0], other[1], other[2].encode(), other[3].encode())
    assert (a < b) == (parts_a < parts_b)


def test_a_register_knows_its_source() -> None:
    register = Register("lily.incident.opened", state_version(START, 7, "urn:a.b", "id with space"), {})
    assert register.source == "urn:a.b"
