"""Where a stack lives and which ports it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from lily_local import config as configuration
from lily_local.config import BLOCK, DEFAULT_BASE, OFFSETS
from lily_local.errors import UserError


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LILY_HOME", "LILY_PORT_BASE", "LILY_PORT_KAFKA", "LILY_PORT_S3_MASTER"):
        monkeypatch.delenv(name, raising=False)


def test_offsets_are_distinct_and_fit_the_block() -> None:
    assert len(set(OFFSETS.values())) == len(OFFSETS)
    assert max(OFFSETS.values()) < BLOCK


def test_defaults_are_fixed(tmp_path: Path) -> None:
    config = configuration.load(tmp_path)
    assert config.port("api") == DEFAULT_BASE == 7700
    assert config.port("kafka") == 7701


def test_home_is_the_flag_then_the_environment_then_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert configuration.home_folder() == tmp_path / ".lily"
    monkeypatch.setenv("LILY_HOME", str(tmp_path / "there"))
    assert configuration.home_folder() == tmp_path / "there"
    assert configuration.home_folder(tmp_path / "flag") == tmp_path / "flag"


def test_base_and_single_ports_from_flags_beat_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LILY_PORT_BASE", "20000")
    monkeypatch.setenv("LILY_PORT_KAFKA", "9092")
    monkeypatch.setenv("LILY_PORT_S3_MASTER", "9333")
    config = configuration.load(tmp_path)
    assert (config.port("api"), config.port("kafka"), config.port("s3-master")) == (20000, 9092, 9333)
    config = configuration.load(tmp_path, 21000, {"kafka": 9999})
    assert (config.port("api"), config.port("kafka"), config.port("s3-master")) == (21000, 9999, 9333)


def test_the_folder_remembers_ports_and_components(tmp_path: Path) -> None:
    configuration.load(tmp_path, 21000, {"kafka": 9999}).with_components(["kafka", "kafka", "s3"]).save()
    again = configuration.load(tmp_path)
    assert again.components == ("kafka", "s3")
    assert again.generation == 1
    assert (again.port("api"), again.port("kafka")) == (21000, 9999)


def test_a_new_base_forgets_ports_singled_out_beside_the_old_one(tmp_path: Path) -> None:
    configuration.load(tmp_path, 21000, {"kafka": 9999}).save()
    assert configuration.load(tmp_path, 22000).port("kafka") == 22001


@pytest.mark.parametrize(
    ("base", "overrides", "message"),
    [
        (80, {}, "port base 80"),
        (65530, {}, "port base 65530"),
        (7700, {"kafka": 7703}, "both kafka and mongo"),
        (7700, {"kafka": 0}, "port 0 for kafka"),
    ],
)
def test_impossible_ports_are_refused(
    tmp_path: Path, base: int, overrides: dict[str, int], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        configuration.load(tmp_path, base, overrides)


def test_a_broken_number_in_the_environment_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LILY_PORT_KAFKA", "many")
    with pytest.raises(UserError, match="LILY_PORT_KAFKA='many'"):
        configuration.load(tmp_path)


def test_a_broken_stack_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text("{")
    with pytest.raises(UserError, match=r"stack\.json cannot be read"):
        configuration.load(tmp_path)


def test_parse_port() -> None:
    assert configuration.parse_port("kafka=9092") == ("kafka", 9092)
    with pytest.raises(UserError, match="unknown port name"):
        configuration.parse_port("kafak=9092")
    with pytest.raises(UserError, match="kafka=NUMBER"):
        configuration.parse_port("kafka=x")
