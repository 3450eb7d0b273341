"""Contracts in the repository are what the code says, and stay backward compatible."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lily_common import events, schemas, topics
from lily_common.envelope import accept

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "contracts" / "examples").glob("*.json"))


def test_schemas_are_generated_from_the_models() -> None:
    held = {path.name: path.read_text() for path in (ROOT / "contracts" / "schemas").glob("*.schema.json")}
    assert held == {name: schemas.render(schema) for name, schema in schemas.generate().items()}


def test_every_event_type_has_an_example() -> None:
    shown = {json.loads(path.read_text())["type"] for path in EXAMPLES}
    assert shown == set(events.EVENT_TYPES)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_accepted(path: Path) -> None:
    assert accept("acme", json.loads(path.read_text()), datetime(2026, 6, 1, tzinfo=UTC)).value


def test_every_topic_constant_has_a_contract() -> None:
    named = {value for name, value in vars(events).items() if name.endswith("_TOPIC")}
    assert named == {topic.name for topic in topics.load()}


BASE: dict[str, Any] = {
    "properties": {"a": {"type": "string"}, "b": {"type": "string", "enum": ["x", "y"]}},
    "required": ["a"],
}


@pytest.mark.parametrize(
    ("change", "breaks"),
    [
        ({"properties": {**BASE["properties"], "c": {"type": "integer"}}}, False),
        ({"required": []}, False),
        ({"required": ["a", "b"]}, True),
        ({"properties": {"a": {"type": "string"}}}, True),
        ({"properties": {**BASE["properties"], "a": {"type": "integer"}}}, True),
        ({"properties": {**BASE["properties"], "b": {"type": "string", "enum": ["x"]}}}, True),
        ({"additionalProperties": False}, True),
    ],
)
def test_the_compatibility_rule(change: dict[str, Any], breaks: bool) -> None:
    assert bool(schemas.breaking_changes(BASE, BASE | change)) is breaks
