"""Acceptance: what is refused names its field, what is taken is stamped and otherwise left alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily_common.envelope import accept
from lily_common.errors import InvalidInputError

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def tag_event(**changes: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": "1",
        "source": "urn:test",
        "type": "lily.classification.attached",
        "data": {"qualified_name": "pg://db/customers/email", "tag": "PII"},
    } | changes


def body(event: dict[str, Any]) -> dict[str, Any]:
    return dict(orjson.loads(accept("acme", event, NOW).value))


def test_a_missing_time_is_the_acceptance_time() -> None:
    stamped = body(tag_event())
    assert stamped["time"] == stamped["acceptedtime"] == "2026-03-01T12:00:00.000000Z"
    assert "originaltime" not in stamped


def test_a_time_too_far_ahead_is_clamped_and_kept() -> None:
    ahead = (NOW + timedelta(minutes=6)).isoformat()
    stamped = body(tag_event(time=ahead))
    assert stamped["time"] == "2026-03-01T12:05:00.000000Z"
    assert stamped["originaltime"] == ahead


def test_the_client_cannot_set_what_lily_sets() -> None:
    stamped = body(tag_event(tenantid="other", lane="bulk", stateversion="z", partitionkey="x"))
    assert (stamped["tenantid"], stamped["lane"]) == ("acme", "priority")
    assert stamped["partitionkey"] == "acme|pg://db/customers/email"
    assert stamped["stateversion"].endswith("urn:test 1")


def test_unknown_fields_and_extensions_are_kept() -> None:
    event = tag_event(myext="v")
    event["data"]["colour"] = {"deep": [1, None]}
    stamped = body(event)
    assert stamped["myext"] == "v"
    assert stamped["data"] == event["data"]


@pytest.mark.parametrize(
    ("kind", "asset_type", "lane"),
    [
        ("asset.upserted", "column", "bulk"),
        ("asset.upserted", "bi_field", "bulk"),
        ("asset.patched", "column", "bulk"),
        ("asset.upserted", "table", "priority"),
        ("asset.deleted", "column", "priority"),
    ],
)
def test_lanes(kind: str, asset_type: str, lane: str) -> None:
    data = {"qualified_name": "pg://db/t", "asset_type": asset_type}
    assert accept("acme", tag_event(type=f"lily.{kind}", data=data), NOW).lane == lane


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"specversion": "0.3"}, "specversion"),
        ({"id": ""}, "id"),
        ({"id": 7}, "id"),
        ({"id": "a\x00b"}, "id"),
        ({"source": "has space"}, "source"),
        ({"type": "lily.unheard.of"}, "type"),
        ({"time": "yesterday"}, "time"),
        ({"time": "2026-01-01T00:00:00"}, "time"),
        ({"sequence": "-1"}, "sequence"),
        ({"Bad_Name": 1}, "Bad_Name"),
        ({"ext": {"a": 1}}, "ext"),
        ({"data": "text"}, "data"),
        ({"data": {"tag": "PII"}}, "data.qualified_name"),
        ({"data": {"qualified_name": "a\x00b", "tag": "PII"}}, "data.qualified_name"),
        ({"data": {"qualified_name": "x" * 10_000, "tag": "PII"}}, "data.qualified_name"),
        ({"data": {"qualified_name": "pg://t", "tag": "a|b"}}, "data.tag"),
        ({"subject": "something else"}, "subject"),
        ({"datacontenttype": "text/xml"}, "datacontenttype"),
    ],
)
def test_what_is_wrong_names_its_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        accept("acme", tag_event(**changes), NOW)
    assert field in [error.field for error in refused.value.errors]


def test_emoji_in_names_are_fine() -> None:
    data = {"qualified_name": "pg://db/🚀 Köln", "tag": "PII 🔒"}
    accepted = accept("acme", tag_event(data=data), NOW)
    assert accepted.key.decode() == "acme|pg://db/🚀 Köln"


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
attributes = st.sampled_from(
    ["id", "source", "type", "time", "subject", "data", "sequence", "x", "specversion"]
)


@given(st.dictionaries(attributes, json_values, max_size=4))
def test_any_json_is_taken_or_clearly_refused(changes: dict[str, Any]) -> None:
    try:
        accepted = accept("acme", tag_event() | changes, NOW)
    except InvalidInputError as refused:
        assert refused.errors
    else:
        assert orjson.loads(accepted.value)["tenantid"] == "acme"
