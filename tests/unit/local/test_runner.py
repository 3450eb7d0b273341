"""A component's life under the supervisor, with small Python programs as components."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from lily_local import processes, runner, secrets
from lily_local.components import Component, Context
from lily_local.config import StackConfig
from lily_local.runner import Runner

RUN_ON = "import time; print('hello', flush=True); time.sleep(60)"
WITH_CHILD = (
    "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
    "time.sleep(60)"
)


def component(code: str, name: str = "small", **more: object) -> Component:
    defaults: dict[str, object] = {"ready": lambda _: True, "stop_timeout": 5.0}
    return Component(name=name, command=lambda _: [sys.executable, "-c", code], **{**defaults, **more})


@pytest.fixture
def context(tmp_path: Path) -> Context:
    config = StackConfig(tmp_path / "stack", 21000)
    config.logs.mkdir(parents=True)
    return Context(config, secrets.ensure(config.home))


@pytest.fixture
async def run(context: Context, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Runner]]:
    """Starts a runner; all are stopped at the end."""
    monkeypatch.setattr(runner, "FIRST_BACKOFF", 0.01)
    started: list[Runner] = []

    def start(what: Component, *needs: Runner) -> Runner:
        started.append(Runner(what, context, needs, lambda: None))
        return started[-1]

    yield start
    await asyncio.gather(*(one.stop() for one in started))
    assert processes.marked(context.secrets.stack_id) == []


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


async def test_ready_then_stopped(run: Callable[..., Runner]) -> None:
    it = run(component(RUN_ON))
    await until(it.up.is_set)
    assert it.state.phase == "ready"
    pid = it.state.pid
    await it.stop()
    assert (it.state.phase, it.state.pid) == ("stopped", 0)
    assert processes.identify(pid) is None


async def test_a_killed_component_is_started_again_and_its_children_are_gone(
    run: Callable[..., Runner], context: Context
) -> None:
    it = run(component(WITH_CHILD))
    await until(lambda: len(processes.marked(context.secrets.stack_id)) == 2)
    first = it.state.pid
    os.kill(first, signal.SIGKILL)
    await until(lambda: it.state.phase == "ready" and it.state.pid != first)
    assert it.state.restarts == 1
    assert it.state.exit_code == -signal.SIGKILL
    assert it.state.exited_at is not None
    await until(lambda: len(processes.marked(context.secrets.stack_id)) == 2)


async def test_what_ran_steadily_is_started_again_at_once(
    run: Callable[..., Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "FIRST_BACKOFF", 60.0)
    monkeypatch.setattr(runner, "STEADY_SECONDS", 0.0)
    it = run(component(RUN_ON))
    await until(it.up.is_set)
    first = it.state.pid
    os.kill(first, signal.SIGKILL)
    await until(lambda: it.state.phase == "ready" and it.state.pid != first)


async def test_one_that_never_comes_up_is_given_up_with_the_end_of_its_log(
    run: Callable[..., Runner],
) -> None:
    it = run(component("print('no disk', flush=True); raise SystemExit(7)", ready=lambda _: False))
    await until(lambda: it.state.phase == "failed")
    assert "exited with 7" in it.state.error
    assert "no disk" in it.state.error
    assert it.state.restarts == runner.START_ATTEMPTS - 1


async def test_one_that_does_not_answer_is_given_up_at_once(run: Callable[..., Runner]) -> None:
    def refuses(_: Context) -> bool:
        raise ConnectionError("nobody there")

    it = run(component(RUN_ON, ready=refuses, start_timeout=0.5))
    await until(lambda: it.state.phase == "failed")
    assert "not ready after 0 s; last answer: nobody there" in it.state.error
    assert it.state.pid == 0


async def test_what_was_given_up_can_be_tried_again(run: Callable[..., Runner], tmp_path: Path) -> None:
    switch = tmp_path / "switch"
    code = f"import pathlib, sys, time; sys.exit(1) if not pathlib.Path({str(switch)!r}).exists() else time.sleep(60)"
    it = run(component(code, ready=lambda _: switch.exists()))
    waiting = run(component(RUN_ON, "user"), it)
    await until(lambda: it.state.phase == "failed")
    assert it.finished
    switch.touch()
    it.begin_again()
    await until(waiting.up.is_set)
    assert it.state.error == ""


async def test_a_step_is_done_when_it_ends_well(run: Callable[..., Runner]) -> None:
    step = run(component("print('done')", "step", one_shot=True, ready=None))
    user = run(component(RUN_ON, "user"), step)
    assert user.state.phase == "waiting"
    await until(user.up.is_set)
    assert step.state.phase == "done"
    assert not step.finished


async def test_a_failing_preparation_is_a_failed_start(run: Callable[..., Runner]) -> None:
    def prepare(_: Context) -> None:
        raise RuntimeError("initdb failed")

    it = run(component(RUN_ON, prepare=prepare))
    await until(lambda: it.state.phase == "failed")
    assert it.state.error == "RuntimeError: initdb failed"
