"""Processes by identity: a pid alone may have passed to somebody else, a pid with its start time cannot."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

# Every process of a stack carries this variable, so that what outlives its parent is still found.
MARKER = "LILY_STACK_ID"
COMPONENT_MARKER = "LILY_STACK_COMPONENT"
#: How long a program may take to get its arguments and variables; it takes less than a millisecond.
_EXEC_SECONDS = 0.25
_POLL = 0.05
_KILL_SECONDS = 10.0


@dataclass(frozen=True)
class Identity:
    """One process for as long as it lives; `started` is its start in clock ticks since boot.

    Ticks, because a start in seconds since the epoch moves when the machine's clock is set.
    """

    pid: int
    started: int

    def process(self) -> psutil.Process | None:
        """The live process, or None when it ended."""
        if _start_ticks(self.pid) != self.started:
            return None
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self.pid)
        return None

    @property
    def alive(self) -> bool:
        return _start_ticks(self.pid) == self.started


def identify(pid: int) -> Identity | None:
    """The identity of a live pid."""
    started = _start_ticks(pid)
    return None if started is None else Identity(pid, started)


def _start_ticks(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat; None when the process has ended (a zombie has)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def marked(stack_id: str, component: str | None = None) -> list[psutil.Process]:
    """Every process that carries the stack's marker (and the component's, when given)."""
    wanted = [f"{MARKER}={stack_id}".encode()]
    if component is not None:
        wanted.append(f"{COMPONENT_MARKER}={component}".encode())
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            entries = _environment(process.pid).split(b"\0")
            if all(entry in entries for entry in wanted):
                found.append(process)
    return found


def _environment(pid: int) -> bytes:
    """The variables that the process was started with. Raises OSError when it has ended, and for the kernel's threads.

    Whoever starts a program may go on before the kernel has laid out its arguments and variables: both read as empty then.
    """
    process, deadline = Path(f"/proc/{pid}"), time.monotonic() + _EXEC_SECONDS
    while not (process / "cmdline").read_bytes() and time.monotonic() < deadline:
        (process / "exe").readlink()  # what has no program never gets any
        os.sched_yield()
    return (process / "environ").read_bytes()


def family(roots: Iterable[Identity]) -> list[psutil.Process]:
    """The live roots and all their descendants."""
    members: dict[int, psutil.Process] = {}
    for root in roots:
        process = root.process()
        if process is None:
            continue
        members[process.pid] = process
        with contextlib.suppress(psutil.NoSuchProcess):
            members.update({child.pid: child for child in process.children(recursive=True)})
    return list(members.values())


def stop(root: Identity, stop_signal: signal.Signals, timeout: float) -> bool:
    """Ask `root` to stop, wait up to `timeout` seconds, then kill it and what it left; True if it went by itself."""
    process = root.process()
    if process is None:
        return True
    members = family([root])
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(stop_signal)
    deadline = time.monotonic() + timeout
    while root.alive and time.monotonic() < deadline:
        time.sleep(_POLL)
    graceful = not root.alive
    kill(members)
    return graceful


def kill(processes: Iterable[psutil.Process]) -> None:
    """Kill what is still alive and wait for it to end.

    It is never waited for as a child, which would take its exit code from whoever started it.
    """
    ended = [identity for process in processes if (identity := _kill(process)) is not None]
    deadline = time.monotonic() + _KILL_SECONDS
    while any(identity.alive for identity in ended) and time.monotonic() < deadline:
        time.sleep(_POLL)


def _kill(process: psutil.Process) -> Identity | None:
    identity = identify(process.pid)
    if identity is None or not process.is_running():
        return None
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
    return identity


def pss_bytes(processes: Iterable[psutil.Process]) -> int:
    """Proportional set size of the processes together: shared pages are counted once, shared out."""
    return sum(_pss(process.pid) for process in processes)


def _pss(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:  # ended meanwhile
        pass
    return 0
