"""Flags before environment before file, and no key sent where it does not belong."""

from __future__ import annotations

from pathlib import Path

import pytest

from lily_cli.errors import UsageError
from lily_cli.settings import env_file, read


@pytest.fixture
def stack_file(tmp_path: Path) -> Path:
    path = tmp_path / ".lily" / "env"
    path.parent.mkdir()
    path.write_text(
        "export LILY_URL=http://file:1\nexport LILY_API_KEY='file key'\nexport LILY_TENANT=acme\n"
    )
    return path


def test_file_above_the_current_folder_is_found(stack_file, tmp_path, monkeypatch):
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert env_file() == stack_file
    assert read().url == "http://file:1"
    assert read().api_key == "file key"


def test_lily_home_decides_where_the_file_is(stack_file, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    (other / "env").write_text("export LILY_URL=http://other:2\n")
    monkeypatch.setenv("LILY_HOME", str(other))
    assert read().url == "http://other:2"


def test_flag_wins_over_environment_wins_over_file(stack_file, monkeypatch):
    monkeypatch.setenv("LILY_API_KEY", "environment key")
    assert read().api_key == "environment key"
    assert read(api_key="flag key").api_key == "flag key"


def test_another_server_does_not_get_the_files_keys(stack_file, monkeypatch):
    assert read(url="http://elsewhere").api_key == ""
    monkeypatch.setenv("LILY_URL", "http://elsewhere")
    assert read().api_key == ""
    assert read(url="http://file:1/").api_key == "file key"


def test_the_repr_shows_no_key(stack_file):
    assert "key" not in repr(read(admin_key="admin key"))


def test_an_api_key_acts_in_its_own_tenant():
    settings = read(api_key="k")
    assert settings.headers() == {"Authorization": "Bearer k"}
    with pytest.raises(UsageError, match="operator"):
        settings.headers(operator=True)


def test_the_tenant_flag_acts_with_the_operators_key():
    headers = read(api_key="k", admin_key="a", tenant="acme").headers()
    assert headers == {"Authorization": "Bearer a", "X-Lily-Tenant": "acme"}


def test_the_operator_has_to_name_a_tenant():
    with pytest.raises(UsageError, match="--tenant"):
        read(admin_key="a").headers()
