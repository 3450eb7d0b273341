"""A `lily` that talks to a mocked API and sees no settings of the machine it runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import respx
from typer.testing import CliRunner, Result

from lily_cli.main import app

URL = "http://lily.test"
Lily = Callable[..., Result]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    for name in ("LILY_URL", "LILY_API_KEY", "LILY_ADMIN_KEY", "LILY_TENANT", "LILY_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def api() -> Iterator[respx.MockRouter]:
    with respx.mock(base_url=URL, assert_all_called=False) as router:
        yield router


@pytest.fixture
def lily() -> Lily:
    """Run a command as a user with an API key; the flags of the call come first."""

    def run(*arguments: str, stdin: str | None = None, flags: tuple[str, ...] = ("--api-key", "k")) -> Result:
        return CliRunner().invoke(app, ["--url", URL, *flags, *arguments], input=stdin)

    return run
