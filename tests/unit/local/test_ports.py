"""Taken and free ports."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lily_local import ports
from lily_local.config import OFFSETS, StackConfig
from lily_local.errors import UserError


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def test_a_taken_port_is_named_with_its_holder_and_the_way_out(taken: int, tmp_path: Path) -> None:
    config = StackConfig(tmp_path, ports.free_base(), {"mongo": taken})
    with pytest.raises(UserError) as caught:
        ports.check(config, ["kafka", "mongo"])
    message = str(caught.value)
    assert f"port {taken} (mongo) is taken" in message
    assert "pid" in message
    assert "--port mongo=NUMBER" in message
    assert "\n" not in message


def test_a_free_base_is_free_and_below_the_systems_own_range(tmp_path: Path) -> None:
    config = StackConfig(tmp_path, ports.free_base())
    ports.check(config, list(OFFSETS))
    assert max(config.ports.values()) < 32768
