"""Effective tags in memory: whatever order notices come in, and however often, they end as the state has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from lily_api.enforcement.view import TagView
from lily_common import events as ev
from lily_common.envelope import accept
from lily_common.state import assemble, fold, register_keys
from lily_connectors.egress.digests import asset_key, folded_key

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ["db://h/a", "db://h/b", "db://h/B"]


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    made = []
    for number in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from([ev.TAG_ATTACHED, ev.TAG_DETACHED, ev.ASSET_DELETED]))
        data: dict[str, Any] = {"qualified_name": draw(st.sampled_from(NAMES))}
        if kind != ev.ASSET_DELETED:
            data |= {
                "tag": draw(st.sampled_from(["PII", "GDPR"])),
                "origin": draw(st.sampled_from(["direct", "r|x"])),
            }
        time = (START + timedelta(seconds=draw(st.integers(0, 6)))).isoformat()
        event = {
            "specversion": "1.0",
            "id": f"e{number}",
            "source": "/t",
            "type": kind,
            "time": time,
            "data": data,
        }
        made.append(orjson.loads(accept("acme", event, START + timedelta(hours=1)).value))
    return made


@given(histories(), st.randoms())
def test_it_ends_as_the_state(history: list[dict[str, Any]], chance: Any) -> None:
    view = TagView()
    coming = history + [event for event in history if chance.random() < 0.3]
    chance.shuffle(coming)
    for event in coming:
        (register,) = register_keys(event["type"], event["source"], event["data"])
        asset = asset_key("acme", event["subject"])
        before = view.tags("acme", event["subject"])
        folded = folded_key("acme", event["subject"])
        changed = view.take_notice(asset, folded, event["type"], register, event["stateversion"])
        assert changed == (view.tags("acme", event["subject"]) != before)
    assert view.tags_in_any_case("acme", "DB://H/b") == view.tags("acme", NAMES[1]) | view.tags(
        "acme", NAMES[2]
    )
    for name in NAMES:
        state = assemble(fold([event for event in history if event["subject"] == name]))
        assert view.tags("acme", name) == set(state.tags)
        assert view.tags("other", name) == set()


def test_what_was_noted_before_names_were_folded_is_found_by_its_own() -> None:
    view = TagView()
    view.tagged(asset_key("acme", NAMES[0]), None, "PII", "direct", "1", live=True)
    assert view.tags_in_any_case("acme", NAMES[0]) == {"PII"}
    folded = folded_key("acme", NAMES[0])
    view.tagged(asset_key("acme", NAMES[0]), folded, "GDPR", "direct", "2", live=True)
    assert view.tags_in_any_case("acme", NAMES[0].upper()) == {"PII", "GDPR"}
