"""One suite over every vendor's sink: each carried event type has a fixture, and renders to what is expected.

A fixture is `fixtures/out/<event>__<case>.json`, a CloudEvent as it is delivered; `….expected.json` beside it holds the body
that goes out (of a sink that makes several calls: the bodies, by their field in what it renders). LILY_UPDATE_FIXTURES=1 writes
the expectations anew, for a person to read and commit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from lily_common.events import FANOUT_TYPES, TYPE_PREFIX
from lily_connectors import registry, vendors
from lily_connectors.contract import AnySink, HttpRequest, HttpSink, OutboundNotice
from lily_connectors.registry import Kind
from lily_connectors.sinks.catalogue import sinks

NOW = datetime(2026, 5, 1, 8, 0, 1, tzinfo=UTC)
OUTBOUND = [kind for kind in registry.kinds().values() if kind.has_outbound]


def folder(kind: Kind) -> Path:
    return Path(vendors.__path__[0]) / kind.package.rsplit(".", 1)[-1] / "fixtures"


def fixtures(kind: Kind) -> list[Path]:
    return sorted(path for path in (folder(kind) / "out").glob("*.json") if ".expected" not in path.name)


def sink_of(kind: Kind) -> AnySink:
    sink: AnySink = kind.outbound.SINK(
        kind.outbound.SINK.config_model.model_validate_json((folder(kind) / "config.json").read_bytes())
    )
    return sink


def rendered(kind: Kind, path: Path) -> Any:
    event = json.loads(path.read_text())
    notice = OutboundNotice(
        "8d0f", event["tenantid"], event["type"], event["subject"], event["transition"], orjson.dumps(event)
    )
    return sink_of(kind).render(notice, NOW)


def bodies(out: Any) -> Any:
    """What goes out, decoded."""
    if out is None:
        return None
    if isinstance(out, HttpRequest | bytes):
        return json.loads(out if isinstance(out, bytes) else out.body)
    return {field.name: bodies(getattr(out, field.name)) for field in fields(out)}


def cases() -> Iterator[Any]:
    for kind in OUTBOUND:
        for path in fixtures(kind):
            yield pytest.param(kind, path, id=f"{kind.name}-{path.stem}")


@pytest.mark.parametrize("kind", OUTBOUND, ids=lambda kind: kind.name)
def test_the_catalogue_has_it_under_its_kind(kind: Kind) -> None:
    sink = sinks()[kind.name]
    assert sink is kind.outbound.SINK
    assert sink.kind == kind.name
    assert sink.config_model is kind.config


@pytest.mark.parametrize("kind", OUTBOUND, ids=lambda kind: kind.name)
def test_every_carried_type_has_a_fixture(kind: Kind) -> None:
    told = {TYPE_PREFIX + path.name.split("__")[0] for path in fixtures(kind)}
    assert set(FANOUT_TYPES) <= told


@pytest.mark.parametrize(("kind", "path"), list(cases()))
def test_fixture_renders_as_expected(kind: Kind, path: Path) -> None:
    out = rendered(kind, path)
    assert isinstance(out, HttpRequest) == isinstance(sink_of(kind), HttpSink)
    body = bodies(out)
    expected = path.with_suffix(".expected.json")
    if os.environ.get("LILY_UPDATE_FIXTURES"):
        expected.write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n")
    assert body == json.loads(expected.read_text())
    assert rendered(kind, path) == out, "rendering is pure"
