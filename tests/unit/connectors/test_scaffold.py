"""A scaffolded connector is a whole one: found, described, signed, with a fixture that holds."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lily_common.errors import UnauthenticatedError
from lily_connectors import registry, vendors
from lily_connectors.inbound import InboundRequest, normalise
from lily_connectors.scaffold import scaffold


@pytest.fixture
def vendors_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(vendors, "__path__", [*vendors.__path__, str(tmp_path)])
    registry.kinds.cache_clear()
    yield tmp_path
    registry.kinds.cache_clear()


def test_what_is_scaffolded_works(vendors_folder: Path) -> None:
    folder = scaffold("great_tool", vendors_folder)
    kind = registry.kind("great-tool")
    assert (kind.title, kind.webhook, kind.direction) == ("Great Tool", True, "inbound")
    body = (folder / "fixtures" / "in" / "ping__test.json").read_bytes()
    config = kind.config.model_validate_json((folder / "fixtures" / "config.json").read_text())
    secret = kind.new_secret()
    assert secret is not None
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    request = InboundRequest("con_1", config, {"x-great-tool-signature": signature}, body, datetime.now(UTC))
    kind.inbound.verify(request, [secret])
    with pytest.raises(UnauthenticatedError):
        kind.inbound.verify(request, ["another"])
    expected = json.loads((folder / "fixtures" / "in" / "ping__test.expected.json").read_text())
    assert normalise(kind.inbound, request) == ("ping", expected)


def test_names_that_are_no_folder_and_folders_that_are_there(tmp_path: Path) -> None:
    for name in ("", "Great", "../evil", "a b", "1st", "a" * 60):
        with pytest.raises(ValueError, match="Python name"):
            scaffold(name, tmp_path)
    scaffold("twice", tmp_path)
    with pytest.raises(FileExistsError):
        scaffold("twice", tmp_path)
