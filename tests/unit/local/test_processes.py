"""Processes by identity, by marker, and how they are ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest
from tests.support.poll import until

from lily_local import processes
from lily_local.processes import Identity

SLEEP = "import time; time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
PARENT = (
    "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
    "print('on', flush=True); time.sleep(60)"
)


@pytest.fixture
def stack_id() -> Iterator[str]:
    marker = uuid.uuid4().hex
    yield marker
    processes.kill(processes.marked(marker))


def spawn(code: str, stack_id: str, component: str = "x") -> subprocess.Popen[bytes]:
    environment = {**os.environ, processes.MARKER: stack_id, processes.COMPONENT_MARKER: component}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
    if "'on'" in code:
        assert process.stdout is not None
        process.stdout.readline()
    return process


def identity_of(process: subprocess.Popen[bytes]) -> Identity:
    identity = processes.identify(process.pid)
    assert identity is not None
    return identity


def test_a_pid_with_another_start_is_another_process(stack_id: str) -> None:
    identity = identity_of(spawn(SLEEP, stack_id))
    assert identity.alive
    other = Identity(identity.pid, identity.started + 1)
    assert not other.alive
    assert other.process() is None
    assert processes.stop(other, signal.SIGTERM, 1)
    assert identity.alive


def test_a_zombie_has_ended(stack_id: str) -> None:
    process = spawn("pass", stack_id)
    identity = processes.identify(process.pid)
    until(lambda: identity is None or not identity.alive, "the process to end", deadline=10)
    process.wait()
    assert processes.identify(process.pid) is None


def test_stop_is_graceful_when_it_can_be(stack_id: str) -> None:
    process = spawn(SLEEP, stack_id)
    assert processes.stop(identity_of(process), signal.SIGTERM, 10)
    assert process.wait() == -signal.SIGTERM


def test_stop_kills_what_does_not_listen(stack_id: str) -> None:
    process = spawn(STUBBORN, stack_id)
    assert not processes.stop(identity_of(process), signal.SIGTERM, 0.3)
    assert process.wait() == -signal.SIGKILL


def test_stop_ends_the_children_too(stack_id: str) -> None:
    process = spawn(PARENT, stack_id)
    assert len(processes.marked(stack_id)) == 2
    processes.stop(identity_of(process), signal.SIGTERM, 5)
    process.wait()
    assert processes.marked(stack_id) == []


def test_the_marker_finds_orphans_of_one_component(stack_id: str) -> None:
    parent, other = spawn(PARENT, stack_id, "one"), spawn(SLEEP, stack_id, "two")
    parent.kill()
    parent.wait()
    orphans = processes.marked(stack_id, "one")
    assert len(orphans) == 1
    assert [process.pid for process in processes.marked(stack_id, "two")] == [other.pid]
    processes.kill(orphans)
    assert processes.marked(stack_id, "one") == []


def test_memory_counts_the_family(stack_id: str) -> None:
    process = spawn(PARENT, stack_id)
    family = processes.family([identity_of(process)])
    assert len(family) == 2
    both, one = processes.pss_bytes(family), processes.pss_bytes(family[:1])
    assert both > one > 1_000_000
