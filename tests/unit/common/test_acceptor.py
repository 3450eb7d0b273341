"""The acceptor for many events says exactly what `envelope.accept` says of each."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lily_common.acceptor import Acceptor
from lily_common.envelope import accept
from lily_common.errors import InvalidInputError
from lily_common.events import EVENT_TYPES

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
EXAMPLES = [
    json.loads(path.read_text())
    for path in sorted((Path(__file__).parents[3] / "contracts" / "examples").glob("*.json"))
]
QN = "postgres://shop-db:5432/shop/public/customers"


def envelopes() -> list[dict[str, Any]]:
    """The contracts' examples, as events."""
    found: list[dict[str, Any]] = []
    for item in EXAMPLES:
        found.extend(item if isinstance(item, list) else [item])
    return found


def outcome(call: Any, event: dict[str, Any]) -> Any:
    """What came of it, comparable: the accepted event with its value decoded, or the errors."""
    try:
        accepted = call(event)
    except InvalidInputError as refused:
        return refused.code, refused.detail, refused.errors
    value = json.loads(accepted.value)
    assert list(value)[-1] == "data"
    return (
        accepted.tenant,
        accepted.source,
        accepted.id,
        accepted.type,
        accepted.subject,
        accepted.lane,
        accepted.key,
        accepted.topic,
        value,
    )


def both(event: dict[str, Any], request_id: str | None = "req") -> Any:
    """The outcome, which has to be one and the same by both ways."""
    fast = outcome(Acceptor("acme", NOW, request_id), json.loads(json.dumps(event)))
    plain = outcome(
        lambda item: accept("acme", item, NOW, request_id=request_id), json.loads(json.dumps(event))
    )
    assert fast == plain
    return fast


def event(kind: str = "lily.classification.attached", **data: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": "1",
        "source": "/s",
        "type": kind,
        "data": {"qualified_name": QN, "tag": "PII", **data},
    }


@pytest.mark.parametrize("item", envelopes(), ids=lambda item: str(item.get("type")))
def test_examples(item: dict[str, Any]) -> None:
    both(item)
    both(item, None)


@pytest.mark.parametrize(
    "time",
    [
        "2026-03-01T12:00:00Z",
        "2026-03-01T12:00:00.5Z",
        "2026-03-01T12:00:00.123456Z",
        "2026-03-01T12:00:00,123456Z",
        "2026-03-01T12:00:00.123456789Z",
        "2026-03-01T14:00:00+02:00",
        "2026-03-01T12:00:00-00:00",
        "2026-03-01t12:00:00z",
        "2026-03-01 12:00:00Z",
        "2026-03-01T12:00:00",
        "20260301T120000Z",
        "20260301T120000.123456000Z",
        "2026-W09-7T12:00:00.123456Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00Z",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+23:59",
        "2026-03-01T12:04:59Z",
        "2026-03-01T13:00:00Z",
        "",
        None,
        5,
    ],
)
def test_times(time: Any) -> None:
    both({**event(), "time": time})


@pytest.mark.parametrize(
    "change",
    [
        {"sequence": 0},
        {"sequence": "0"},
        {"sequence": 7},
        {"sequence": "007"},
        {"sequence": 10**19},
        {"sequence": 10**20},
        {"sequence": "9" * 20},
        {"sequence": True},
        {"sequence": "²"},
        {"sequence": None},
        {"traceparent": "00-a-b-01"},
        {"traceparent": 5},
        {"traceparent": {}},
        {"dataschema": ""},
        {"myext": "x"},
        {"MyExt": "x"},
        {"subject": QN},
        {"subject": "other"},
        {"subject": None},
        {"tenantid": "evil", "lane": "bulk", "stateversion": "9"},
        {"datacontenttype": "application/json"},
        {"datacontenttype": "application/json; charset=utf-8"},
        {"datacontenttype": "text/xml"},
        {"data_base64": "AA=="},
        {"data": None},
        {"data": []},
        {"id": ""},
        {"id": "x" * 1025},
        {"id": "é 😀"},
        {"id": "a\u00a0b"},
        {"id": "a\x00b"},
        {"source": "a b"},
        {"source": "a|b"},
        {"type": "nobody"},
        {"type": ["x"]},
        {"specversion": 1.0},
    ],
    ids=str,
)
def test_envelopes(change: dict[str, Any]) -> None:
    both({**event(), **change})


NAMES = st.sampled_from(
    [QN, "x", " x", "x ", "a|b", "a\x00", "é/😀", "a\u00a0", "x" * 513, "é" * 1100, "", None, 5]
)
SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 2**40) | st.floats(allow_nan=False) | st.text(max_size=4)
)
VALUES = (
    NAMES
    | SCALARS
    | st.lists(NAMES | SCALARS, max_size=2)
    | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2)
    | st.sampled_from(
        ["core", "run", "Core", "core\n", "table", "column", "field", "direct", "rule", "PII", "a|b"]
    )
)
FIELDS = [
    "qualified_name",
    "asset_type",
    "aspect",
    "name",
    "parent",
    "description",
    "owners",
    "terms",
    "data_type",
    "properties",
    "set",
    "unset",
    "tag",
    "origin",
    "origin_kind",
    "path",
    "depth",
    "reason",
    "upstream",
    "downstream",
    "via",
    "kind",
    "transformation",
    "incident_id",
    "title",
    "severity",
    "extra",
]
GOOD = {
    "qualified_name": QN,
    "asset_type": "column",
    "tag": "PII",
    "upstream": QN,
    "downstream": f"{QN}/x",
    "incident_id": "i",
    "title": "t",
    "owners": ["a"],
    "terms": [],
    "description": None,
    "key": {},
    "op": "c",
}


@settings(max_examples=1000)
@given(st.sampled_from(sorted(EVENT_TYPES)), st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3))
@example("lily.asset.upserted", {"asset_type": "bi_field", "properties": {"a": 1}})
@example("lily.asset.patched", {"set": {"a": None}, "unset": ["b"]})
def test_payloads(kind: str, change: dict[str, Any]) -> None:
    both({**event(kind), "data": GOOD | change})


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(["id", "source", "type", "specversion", "data", "time"]), VALUES))
def test_anything(change: dict[str, Any]) -> None:
    both(change)
    both({**event(), **change})


def test_too_large_an_event() -> None:
    code, *_ = both(event(reason="x" * 900_000))
    assert code == "event-too-large"


def test_the_acceptance_time_is_the_time_of_an_event_without() -> None:
    value = json.loads(Acceptor("acme", NOW)(event()).value)
    assert value["time"] == value["acceptedtime"] == "2026-03-01T12:00:00.123456Z"
    ahead = (NOW + timedelta(minutes=9)).isoformat()
    clamped = json.loads(Acceptor("acme", NOW)({**event(), "time": ahead}).value)
    assert (clamped["time"], clamped["originaltime"]) == ("2026-03-01T12:05:00.123456Z", ahead)
