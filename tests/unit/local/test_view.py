"""What `lily status` says."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rich.console import Console

from lily_local import processes, state, view
from lily_local.config import StackConfig
from lily_local.state import ComponentState, StackState


def example() -> StackState:
    own = processes.identify(os.getpid())
    assert own is not None
    components = {
        "kafka": ComponentState("ready", 42, 1, 2, time.time() - 125, -9, time.time() - 130),
        "lake": ComponentState("failed", error="exited with 1\n[last line]"),
    }
    return StackState(own.pid, own.started, 3, components)


def test_state_survives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert state.read(path) == StackState()
    example().save(path)
    read = state.read(path)
    assert read.components.keys() == {"kafka", "lake"}
    assert read.components["kafka"].restarts == 2
    assert read.supervisor is not None
    assert read.generation == 3


def test_a_supervisor_of_another_start_is_not_ours() -> None:
    stale = example()
    stale.started += 1
    assert stale.supervisor is None


def test_table_shows_restart_exit_memory_and_the_failure(tmp_path: Path) -> None:
    console = Console(width=120, record=True, file=(tmp_path / "out").open("w"))
    console.print(
        view.table(StackConfig(tmp_path), example(), {"kafka": 190_000_000, "supervisor": 10_000_000})
    )
    text = console.export_text()
    assert "signal 9" in text
    assert "2m05s" in text
    assert "190 MB" in text
    assert "200 MB" in text
    assert "[last line]" in text


def test_document_is_for_programs(tmp_path: Path) -> None:
    document = view.as_document(StackConfig(tmp_path), example(), {"kafka": 5})
    kafka = document["components"]["kafka"]
    assert (kafka["state"], kafka["port"], kafka["restarts"], kafka["last_exit"]) == ("ready", 7701, 2, -9)
    assert document["up"]
    assert document["memory_pss"] == 5
