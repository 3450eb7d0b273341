"""What is shipped for a Trino of one's own says the same as what the embedded one is started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from lily_local import config as configuration
from lily_local import secrets
from lily_local.components.model import Context
from lily_local.trino import configure, key

SHIPPED = Path(__file__).parents[3] / "infra" / "trino" / "etc"


def properties(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(key, "made", lambda _context: "lily_a/key")
    config = configuration.load(tmp_path / "home")
    context = Context(config, secrets.ensure(config.home))
    configure.folder(context).mkdir(parents=True)
    return configure.write(context, tmp_path / "trino").parent


def test_the_same_questions_are_asked(written: Path) -> None:
    ours = properties(written / "access-control.properties")
    shipped = properties(SHIPPED / "access-control.properties")
    assert {name: value.partition("/v1/")[2].partition("=")[0] for name, value in ours.items()} == {
        name: value.partition("/v1/")[2].partition("=")[0] for name, value in shipped.items()
    }
    assert ours["opa.policy.uri"].endswith("/v1/opa/trino/allow?key=lily_a%2Fkey")


def test_the_lake_is_the_same_catalog(written: Path) -> None:
    ours = properties(written / "catalog" / "lake.properties")
    shipped = properties(SHIPPED / "catalog" / "lake.properties")
    assert ours.keys() == shipped.keys()
    plain = {name for name, value in shipped.items() if "$" not in value and "/" not in value}
    assert {name: ours[name] for name in plain} == {name: shipped[name] for name in plain}


def test_only_the_owner_reads_the_key(written: Path) -> None:
    assert (written / "access-control.properties").stat().st_mode & 0o077 == 0
