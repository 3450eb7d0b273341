"""`.lily/env` and the variables of the components."""

from __future__ import annotations

import base64
import stat
import subprocess
from pathlib import Path

import pytest

from lily_local import environment, secrets
from lily_local.config import StackConfig

PUBLIC = {
    "LILY_URL",
    "LILY_ADMIN_KEY",
    "LILY_TENANT",
    "LILY_API_KEY",
    "KAFKA_BOOTSTRAP",
    "MONGO_URI",
    "POSTGRES_URI",
    "S3_ENDPOINT",
    "S3_ACCESS_KEY",
    "S3_SECRET_KEY",
    "LAKE_URI",
}


@pytest.fixture
def config(tmp_path: Path) -> StackConfig:
    return StackConfig(tmp_path / "stack", 21000)


def test_secrets_are_generated_once_and_closed_to_others(config: StackConfig) -> None:
    made = secrets.ensure(config.home)
    assert secrets.ensure(config.home) == made
    assert len(base64.b64decode(made.master_key, validate=True)) == 32
    for name in ("secrets.json", "signing.pem"):
        assert stat.S_IMODE((config.home / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(config.home.stat().st_mode) == 0o700
    assert (config.home / "signing.pem").read_text().startswith("-----BEGIN PRIVATE KEY-----")


def test_two_stacks_share_no_secret(tmp_path: Path) -> None:
    one, two = secrets.ensure(tmp_path / "one"), secrets.ensure(tmp_path / "two")
    assert not {one.admin_key, one.s3_secret_key, one.master_key, one.stack_id} & {
        two.admin_key,
        two.s3_secret_key,
        two.master_key,
        two.stack_id,
    }


def test_a_shell_can_source_the_file(config: StackConfig) -> None:
    kept = secrets.ensure(config.home).with_tenant("demo", "a key with 'quotes' and $HOME")
    environment.write_env_file(config, kept)
    path = config.home / "env"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    done = subprocess.run(
        ["/bin/sh", "-c", f'. "{path}" && env -0'], env={}, capture_output=True, text=True, check=True
    )
    seen = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
    assert {name: seen[name] for name in PUBLIC} == environment.public(config, kept)
    assert seen["LILY_API_KEY"] == "a key with 'quotes' and $HOME"


def test_the_file_is_written_before_there_is_a_tenant(config: StackConfig) -> None:
    environment.write_env_file(config, secrets.ensure(config.home))
    text = (config.home / "env").read_text()
    assert "KAFKA_BOOTSTRAP" in text
    assert "LILY_API_KEY" not in text


def test_connect_is_named_where_it_runs(config: StackConfig) -> None:
    kept = secrets.ensure(config.home)
    assert "LILY_CONNECT_URL" not in environment.public(config, kept)
    with_connect = environment.public(config.with_components(["connect"]), kept)
    assert with_connect["LILY_CONNECT_URL"] == "http://127.0.0.1:21017"
    assert environment.full(config, kept)["LILY_CONNECT_URL"] == "http://127.0.0.1:21017"


def test_components_get_what_the_services_read(config: StackConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    from lily_common.config import Settings

    for name, value in environment.full(config, secrets.ensure(config.home)).items():
        monkeypatch.setenv(name, value)
    settings = Settings()
    assert settings.url == settings.jwt_issuer == "http://127.0.0.1:21000"
    assert len(settings.master_key_bytes) == 32
    assert [str(network) for network in settings.egress_allow_networks] == ["127.0.0.0/8"]
    assert settings.lake_table("bronze/events") == "s3a://lily-lake/bronze/events"


def test_what_would_mislead_a_component_is_not_inherited() -> None:
    assert environment.inherited({"SPARK_HOME": "/elsewhere", "LANG": "C"}) == {"LANG": "C"}
