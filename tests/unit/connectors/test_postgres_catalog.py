"""Catalogue rows to events; reading a real server is an integration test."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from lily_common.envelope import accept
from lily_connectors.vendors import postgres_catalog
from lily_connectors.vendors.postgres_catalog.catalogue import Row
from lily_connectors.vendors.postgres_catalog.harvest import normalise

FIXTURE = Path(postgres_catalog.__path__[0]) / "fixtures" / "in" / "catalogue__shop.json"
ROWS = [Row.from_json(fields) for fields in json.loads(FIXTURE.read_text())]
NAMESPACE = "postgres://shop-db:5432"


def test_fixture_becomes_the_expected_events() -> None:
    events = list(normalise(ROWS, NAMESPACE))
    expected = FIXTURE.with_suffix(".expected.json")
    if os.environ.get("LILY_UPDATE_FIXTURES"):
        expected.write_text(json.dumps(events, indent=2, ensure_ascii=False) + "\n")
    assert events == json.loads(expected.read_text())
    for event in events:
        accept("acme", event, datetime.now(UTC))


def test_the_same_again_has_the_same_ids_and_a_change_has_another() -> None:
    first = [event["id"] for event in normalise(ROWS, NAMESPACE)]
    assert len(set(first)) == len(ROWS)
    assert [event["id"] for event in normalise(ROWS, NAMESPACE)] == first
    column = next(row for row in ROWS if row.kind == "column")
    changed = replace(column, detail={**column.detail, "data_type": "text"})
    back = replace(column, mark="999.703")
    ids = {event["id"] for event in normalise([column, changed, back], NAMESPACE)}
    assert len(ids) == 3, "changed and changed back are news, though the content is as before"


def test_names_with_dots_do_not_meet() -> None:
    rows = [
        Row("column", ("shop", "public", "a", "b"), None, {}, ""),
        Row("table", ("shop", "public", "a.b"), None, {}, ""),
        Row("table", ("shop", "public.a", "b"), None, {}, ""),
        Row("schema", ("shop", "public.a"), None, {}, ""),
    ]
    names = {event["data"]["qualified_name"] for event in normalise(rows, NAMESPACE)}
    assert len(names) == len(rows)
