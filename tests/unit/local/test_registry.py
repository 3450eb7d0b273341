"""What the stack consists of."""

from __future__ import annotations

import pytest

from lily_local.commands import _names
from lily_local.components.registry import ALL, DEFAULT, SERVERS, select
from lily_local.config import OFFSETS
from lily_local.errors import UserError
from lily_local.jars import load


def test_needs_come_before_their_users_and_exist() -> None:
    seen: set[str] = set()
    for component in ALL.values():
        assert set(component.needs) <= seen, component.name
        seen.add(component.name)


def test_ports_and_jars_are_declared() -> None:
    used = [port for component in ALL.values() for port in component.ports]
    assert len(set(used)) == len(used)
    assert set(used) <= set(OFFSETS)
    assert {name for component in ALL.values() for name in component.jar_sets} <= set(load())


def test_no_product_job_has_the_listener_of_a_clients_job() -> None:
    assert all("openlineage" not in component.jar_sets for component in ALL.values())


def test_select_brings_what_is_needed() -> None:
    assert [component.name for component in select(SERVERS)] == list(SERVERS)
    assert [component.name for component in select(["lake"])] == ["kafka", "mongo", "s3", "topics", "lake"]
    assert [component.name for component in select(None)] == list(DEFAULT)
    assert [component.name for component in select(["connect"])] == ["kafka", "connect"]
    with pytest.raises(UserError, match="no component nix; there are kafka"):
        select(["nix"])


def test_some_are_started_only_when_they_are_asked_for() -> None:
    assert set(ALL) - set(DEFAULT) == {"connect", "trino"}
    assert _names(None, None) is None
    assert _names(None, "connect") == [*DEFAULT, "connect"]
    assert _names("kafka, s3", None) == ["kafka", "s3"]
    assert _names("kafka", "connect") == ["kafka", "connect"]
