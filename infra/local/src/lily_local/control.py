"""Starting, watching and stopping a stack from outside its supervisor."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lily_local import environment, jars, java, ports, processes, secrets, state
from lily_local.components import Component
from lily_local.components.registry import ALL, select
from lily_local.config import StackConfig, remembered
from lily_local.errors import UserError
from lily_local.secrets import Secrets
from lily_local.state import StackState

_POLL = 0.1
_SUPERVISOR_SECONDS = 60
_STOP_SECONDS = 150
_OURS = ("data", "run", "logs", "env", "secrets.json", "signing.pem", "stack.json", "state.json")
_LOCKS = ("supervisor.lock", "command.lock")


@dataclass(frozen=True)
class Started:
    """What `start` did; `supervisor` is the new background process, None when one was there already."""

    config: StackConfig
    secrets: Secrets
    already_up: bool
    supervisor: subprocess.Popen[bytes] | None


def start(config: StackConfig, names: Sequence[str] | None, *, tied: bool = False) -> Started:
    """Have the components (the default ones when None) running; returns before they are ready.

    `tied` ends the stack when the calling thread ends, for tests. Raises UserError for what the user can put right:
    no Java, a taken port, jars that cannot be fetched, a package that is not installed.
    """
    wanted = select(names)
    _check_installed(wanted)
    if any(component.needs_java for component in wanted):
        java.find()
    jars.ensure_all(name for component in wanted for name in component.jar_sets)
    with _command_lock(config.home):
        kept = secrets.ensure(config.home)
        running = state.read(config.state_file)
        if running.supervisor is None:
            sweep(config, kept)
            running = StackState()
        elif _moved(config):
            raise UserError(f"the stack in {config.home} is up on other ports; `lily down` first")
        up = {name for name, known in running.components.items() if known.phase not in ("failed", "stopped")}
        missing = [component for component in wanted if component.name not in up]
        if not missing:
            return Started(remembered(config.home), kept, True, None)
        ports.check(config, [name for component in missing for name in component.ports])
        config = config.with_components([*running.components, *(component.name for component in wanted)])
        _make_folders(config)
        config.save()
        environment.write_env_file(config, kept)
        supervisor = _wake(config, kept, running, tied=tied)
    return Started(config, kept, False, supervisor)


def wait(
    config: StackConfig, names: Sequence[str], show: Callable[[StackState], None], timeout: float = 300
) -> StackState:
    """Follow the components until each is ready, done or failed; raises UserError with the log's end on failure."""
    deadline = time.monotonic() + timeout
    while True:
        current = state.read(config.state_file)
        show(current)
        seen = current.generation >= config.generation
        known = [current.components.get(name) if seen else None for name in names]
        failed = [name for name, it in zip(names, known, strict=True) if it and it.phase == "failed"]
        if failed:
            detail = current.components[failed[0]].error
            raise UserError(f"{failed[0]} did not start: {detail}\n(whole log: {config.log_file(failed[0])})")
        if all(it is not None and it.phase in state.SETTLED for it in known):
            return current
        if current.supervisor is None and current.components:
            raise UserError(f"the supervisor ended; see {config.log_file('supervisor')}")
        if time.monotonic() > deadline:
            late = [
                name for name, it in zip(names, known, strict=True) if not it or it.phase not in state.SETTLED
            ]
            raise UserError(f"not ready after {timeout:.0f} s: {', '.join(late)}; see `lily logs {late[0]}`")
        time.sleep(_POLL)


def stop(config: StackConfig, show: Callable[[StackState], None] | None = None) -> bool:
    """Stop everything that the stack started; returns whether anything ran."""
    if not (config.home / "secrets.json").exists():
        return False
    with _command_lock(config.home):
        supervisor = state.read(config.state_file).supervisor
        if supervisor is not None:
            os.kill(supervisor.pid, signal.SIGTERM)
            deadline = time.monotonic() + _STOP_SECONDS  # past it, the sweep ends what is left by force
            while supervisor.alive and time.monotonic() < deadline:
                if show is not None:
                    show(state.read(config.state_file))
                time.sleep(_POLL)
        left = sweep(config, secrets.ensure(config.home))
    return supervisor is not None or left


def sweep(config: StackConfig, kept: Secrets) -> bool:
    """Stop what a killed supervisor left: recorded processes in reverse order, then all that carry the marker."""
    recorded = state.read(config.state_file)
    found = False
    for name in reversed(ALL):
        known = recorded.components.get(name)
        identity = known.identity if known else None
        if identity is not None and identity.alive:
            found = True
            processes.stop(identity, ALL[name].stop_signal, ALL[name].stop_timeout)
    left = [process for process in processes.marked(kept.stack_id) if process.pid != os.getpid()]
    processes.kill(left)
    if recorded.components:
        for known in recorded.components.values():
            known.pid, known.phase = 0, "stopped"
        StackState(components=recorded.components).save(config.state_file)
    return found or bool(left)


def wipe(config: StackConfig) -> None:
    """Delete the stack's data, secrets and settings; only what the stack made."""
    for name in (*_OURS, *_LOCKS):
        path = config.home / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # somebody else's files are in it: then it stays
        config.home.rmdir()


def _check_installed(wanted: Sequence[Component]) -> None:
    for component in wanted:
        if component.module is None:
            continue
        package = component.module.partition(".")[0]
        if importlib.util.find_spec(package) is None:
            raise UserError(f"{component.name} needs the package {package.replace('_', '-')}: install it")


def _moved(config: StackConfig) -> bool:
    """Whether the running stack was started with other ports."""
    return remembered(config.home).ports != config.ports


def _make_folders(config: StackConfig) -> None:
    for folder in (config.run, config.logs, config.home / "data", config.data("checkpoints")):
        folder.mkdir(parents=True, exist_ok=True)


def _wake(
    config: StackConfig, kept: Secrets, running: StackState, *, tied: bool
) -> subprocess.Popen[bytes] | None:
    """Tell the running supervisor to look again, or start one."""
    if running.supervisor is not None:
        os.kill(running.supervisor.pid, signal.SIGHUP)
        _wait_seen(config, None)
        return None
    config.state_file.unlink(missing_ok=True)
    setpriv = shutil.which("setpriv")
    tie = [setpriv, "--pdeathsig", "SIGTERM"] if tied and setpriv else []
    command = [*tie, sys.executable, "-m", "lily_local.supervisor", str(config.home)]
    with config.log_file("supervisor").open("ab") as log:
        supervisor = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=config.home,
            env={**os.environ, processes.MARKER: kept.stack_id},
            start_new_session=True,
        )
    _wait_seen(config, supervisor)
    return supervisor


def _wait_seen(config: StackConfig, supervisor: subprocess.Popen[bytes] | None) -> None:
    """Until the supervisor follows this generation of stack.json; only then may another command look at it."""
    deadline = time.monotonic() + _SUPERVISOR_SECONDS
    while state.read(config.state_file).generation < config.generation:
        if time.monotonic() > deadline or (supervisor is not None and supervisor.poll() is not None):
            raise UserError(f"the supervisor does not start; see {config.log_file('supervisor')}")
        time.sleep(_POLL)


@contextlib.contextmanager
def _command_lock(home: Path) -> Iterator[None]:
    """One command at a time per stack."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "command.lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
