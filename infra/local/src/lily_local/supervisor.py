"""The background process that starts the components, keeps them running and stops them.

Started as `python -m lily_local.supervisor HOME`. It holds HOME/supervisor.lock as long as it lives, writes
HOME/state.json, reads HOME/stack.json again on SIGHUP (to start what is newly wanted) and stops all on SIGTERM.
Its children get their stop signal from the kernel when it dies unasked; what survives even that is found by the
next `lily up` or `lily down` through the recorded identities and the stack's marker.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import sys
import time
from pathlib import Path
from typing import TextIO

from lily_local import config as configuration
from lily_local import processes, secrets
from lily_local.components import Context
from lily_local.components.registry import select
from lily_local.runner import Runner
from lily_local.state import StackState

LOG_CHECK_SECONDS = 30
LOG_LIMIT_BYTES = 64 * 1024 * 1024


class Supervisor:
    """Owns one Runner per component and the state file."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._config = configuration.remembered(home)
        own = processes.identify(os.getpid())
        assert own is not None
        self._state = StackState(own.pid, own.started)
        self._runners: dict[str, Runner] = {}
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Until SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._start_wanted)
        self._start_wanted()
        upkeep = asyncio.create_task(self._bound_logs())
        await self._stopping.wait()
        upkeep.cancel()
        await self._stop_all()

    def _start_wanted(self) -> None:
        """Start what stack.json names and does not run; called again when it has changed."""
        self._config = configuration.remembered(self._home)
        context = Context(self._config, secrets.ensure(self._home))
        for component in select(self._config.components):
            runner = self._runners.get(component.name)
            if runner is None:
                needs = [self._runners[name] for name in component.needs]
                self._runners[component.name] = Runner(component, context, needs, self._save)
            elif runner.finished:
                runner.begin_again()
        self._state.generation = self._config.generation
        self._state.components = {name: self._runners[name].state for name in self._runners}
        self._save()

    def _save(self) -> None:
        self._state.save(self._config.state_file)

    async def _stop_all(self) -> None:
        """Each component after those that need it."""
        done = {name: asyncio.Event() for name in self._runners}

        async def stop(name: str, runner: Runner) -> None:
            users = [other for other, its in self._runners.items() if name in its.component.needs]
            for user in users:
                await done[user].wait()
            await runner.stop()
            done[name].set()

        await asyncio.gather(*(stop(name, runner) for name, runner in self._runners.items()))
        self._state.pid = 0
        self._save()

    async def _bound_logs(self) -> None:
        """Cut a log that has grown too long: the writer appends, so emptying the file is safe."""
        while True:
            await asyncio.sleep(LOG_CHECK_SECONDS)
            for path in self._config.logs.glob("*.log"):
                if path.stat().st_size > LOG_LIMIT_BYTES:
                    path.with_suffix(".log.1").write_bytes(path.read_bytes())
                    os.truncate(path, 0)


def hold_lock(home: Path) -> TextIO | None:
    """The supervisor's lock, or None when another supervisor holds it."""
    handle = (home / "supervisor.lock").open("a")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        return None
    return handle


def main() -> int:
    home = Path(sys.argv[1])
    lock = hold_lock(home)
    if lock is None:
        return 3
    with lock, contextlib.suppress(KeyboardInterrupt):
        sys.stdout.write(f"supervisor {os.getpid()} of {home} started at {time.ctime()}\n")
        asyncio.run(_run(home))
    return 0


async def _run(home: Path) -> None:
    await Supervisor(home).run()


if __name__ == "__main__":
    sys.exit(main())
