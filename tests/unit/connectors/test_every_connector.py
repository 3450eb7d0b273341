"""One suite over every vendor's folder: README, configuration, handlers and fixtures fit together.

A fixture is `fixtures/in/<event>__<case>.json`, the body as the vendor sends it; `….expected.json` beside it holds the
events that it becomes. Setting LILY_UPDATE_FIXTURES=1 writes the expectations anew, for a person to read and commit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lily_common.envelope import accept
from lily_common.errors import LilyError, UnauthenticatedError
from lily_connectors import registry, vendors
from lily_connectors.inbound import InboundRequest, normalise
from lily_connectors.registry import Kind

NOW = datetime(2026, 1, 15, 18, 10, tzinfo=UTC)
KINDS = registry.kinds()
WEBHOOKS = [kind for kind in KINDS.values() if kind.webhook]


def folder(kind: Kind) -> Path:
    return Path(vendors.__path__[0]) / kind.package.rsplit(".", 1)[-1]


def fixtures(kind: Kind) -> list[Path]:
    return sorted(
        path for path in (folder(kind) / "fixtures" / "in").glob("*.json") if ".expected" not in path.name
    )


def config_of(kind: Kind) -> Any:
    return kind.config.model_validate_json((folder(kind) / "fixtures" / "config.json").read_bytes())


def call(kind: Kind, body: bytes, **headers: str) -> InboundRequest:
    return InboundRequest("con_1", config_of(kind), {"webhook-id": "msg_1", **headers}, body, NOW)


def cases() -> Iterator[Any]:
    for kind in WEBHOOKS:
        for path in fixtures(kind):
            yield pytest.param(kind, path, id=f"{kind.name}-{path.stem}")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_readme_has_a_title_and_says_what_it_is(kind: Kind) -> None:
    assert (folder(kind) / "README.md").is_file()
    assert kind.title != kind.name
    assert len(kind.summary) > 40


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_configuration_has_a_schema_with_descriptions(kind: Kind) -> None:
    schema = kind.schema()
    assert schema["additionalProperties"] is False
    described = [
        name for name, field in schema["properties"].items() if "description" in field or "const" in field
    ]
    assert described == list(schema["properties"])
    with pytest.raises(ValidationError):
        kind.config.model_validate({"no such field": 1})


@pytest.mark.parametrize("kind", WEBHOOKS, ids=lambda kind: kind.name)
def test_every_handler_has_a_fixture_and_every_fixture_a_handler(kind: Kind) -> None:
    told = {path.name.split("__")[0] for path in fixtures(kind)}
    assert told == set(kind.inbound.HANDLERS)


@pytest.mark.parametrize(("kind", "path"), list(cases()))
def test_fixture_becomes_the_expected_events(kind: Kind, path: Path) -> None:
    event_type, events = normalise(kind.inbound, call(kind, path.read_bytes()))
    assert event_type == path.name.split("__")[0]
    expected = path.with_suffix(".expected.json")
    if os.environ.get("LILY_UPDATE_FIXTURES"):
        expected.write_text(json.dumps(events, indent=2, ensure_ascii=False) + "\n")
    assert events == json.loads(expected.read_text())
    for event in events:
        accept("acme", event, NOW)
    again = normalise(kind.inbound, call(kind, path.read_bytes()))
    assert again == (event_type, events), "the same call has to make the same ids"


@pytest.mark.parametrize("kind", WEBHOOKS, ids=lambda kind: kind.name)
def test_an_unsupported_event_is_named_with_those_that_are(kind: Kind) -> None:
    with pytest.raises(LilyError) as refused:
        normalise(kind.inbound, call(kind, b'{"type": "nobody-knows", "action": "nobody-knows"}'))
    assert refused.value.status == 422
    assert refused.value.code == "unsupported-event-type"


@pytest.mark.parametrize("kind", WEBHOOKS, ids=lambda kind: kind.name)
def test_nothing_unsigned_is_let_in(kind: Kind) -> None:
    body = fixtures(kind)[0].read_bytes()
    secret = kind.new_secret()
    assert secret is not None
    for secrets in ([], [secret]):
        with pytest.raises(UnauthenticatedError):
            kind.inbound.verify(call(kind, body), secrets)


@pytest.mark.parametrize("kind", WEBHOOKS, ids=lambda kind: kind.name)
def test_a_fresh_secret_is_new_and_long(kind: Kind) -> None:
    first, second = kind.new_secret(), kind.new_secret()
    assert first and second
    assert first != second
    assert len(first) >= 40


@pytest.mark.parametrize("kind", WEBHOOKS, ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b"null", b"5", b'"x"', b"{", b"\xff", b"[" * 100_000, b"[5]"]
)
def test_odd_bodies_are_refused_or_mean_nothing(kind: Kind, body: bytes) -> None:
    try:
        _, events = normalise(kind.inbound, call(kind, body))
    except LilyError as refused:
        assert refused.status in (400, 422)
    else:
        assert events == []
