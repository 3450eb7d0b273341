"""One component's life: wait for what it needs, prepare, start, probe, watch, start again."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from lily_local import processes
from lily_local.components import Component, Context
from lily_local.environment import inherited
from lily_local.processes import COMPONENT_MARKER, MARKER
from lily_local.state import ComponentState, Phase

PROBE_SECONDS = 0.1
FIRST_BACKOFF = 0.5
LONGEST_BACKOFF = 30.0
STEADY_SECONDS = 10.0  # a run this long forgets earlier crashes
START_ATTEMPTS = 3  # a component that was never ready is given up after these
SHOWN_LINES = 12


class StartError(Exception):
    """A start that did not end in readiness."""


class NotReadyError(StartError):
    """It runs but does not answer in time: trying again would only take as long again."""


class Runner:
    """Runs `component` until `stop`; `state` is what others see of it and `changed` is called at each change."""

    def __init__(
        self, component: Component, context: Context, needs: Sequence[Runner], changed: Callable[[], None]
    ) -> None:
        self.component = component
        self.state = ComponentState(since=time.time())
        self.up = asyncio.Event()
        self._context = context
        self._needs = needs
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        self._was_ready = False
        self._quick_crashes = 0
        self._task = asyncio.create_task(self._live())

    def begin_again(self) -> None:
        """Try anew what was given up; those that wait for it go on waiting for this same runner."""
        self.state.error, self.state.restarts = "", 0
        self._enter("waiting")
        self._task = asyncio.create_task(self._live())

    @property
    def finished(self) -> bool:
        """Whether nothing runs and nothing will, unless started anew."""
        return self._task.done() and self.state.phase != "done"

    async def stop(self) -> None:
        """Stop gracefully, then by force; returns when the component and all it started are gone."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        identity = self.state.identity
        if identity is not None:
            self._enter("stopping")
            await asyncio.to_thread(
                processes.stop, identity, self.component.stop_signal, self.component.stop_timeout
            )
            if self._process is not None:
                self._record_exit(await self._process.wait())
        await self._sweep()
        self._enter("stopped")

    async def _live(self) -> None:
        for need in self._needs:
            await need.up.wait()
        attempt = 0
        while True:
            attempt += 1
            try:
                await self._start()
                await self._watch()
            except StartError as error:
                await self._reap()
                self.state.error = str(error)
                hopeless = attempt >= START_ATTEMPTS or isinstance(error, NotReadyError)
                if hopeless and not self._was_ready:
                    self._enter("failed")
                    return
            if self.state.phase == "done":
                return
            await self._recover()

    async def _start(self) -> None:
        """Bring it to readiness, or raise StartError."""
        self._enter("preparing")
        try:
            await asyncio.to_thread(self.component.prepare, self._context)
            await self._spawn()
        except Exception as error:
            raise StartError(f"{type(error).__name__}: {error}") from error
        self._enter("starting")
        if not self.component.one_shot:
            await self._wait_until_ready()
            self._mark_up("ready")

    async def _watch(self) -> None:
        """Return when the process has ended; a one-shot that ended well is done."""
        assert self._process is not None
        code = await self._process.wait()
        self._record_exit(code)
        if self.component.one_shot:
            if code != 0:
                raise StartError(self._exit_text(code))
            self._mark_up("done")
            return
        self.state.error = self._exit_text(code)

    async def _spawn(self) -> None:
        config = self._context.config
        environment = {
            **inherited(dict(os.environ)),
            **self.component.environment(self._context),
            MARKER: self._context.secrets.stack_id,
            COMPONENT_MARKER: self.component.name,
            "PYTHONUNBUFFERED": "1",
        }
        command = [*self._follow_supervisor(), *self.component.command(self._context)]
        with config.log_file(self.component.name).open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=config.home,
                env=environment,
                start_new_session=True,
            )
        identity = processes.identify(self._process.pid)
        if identity is not None:
            self.state.pid, self.state.started = identity.pid, identity.started

    def _follow_supervisor(self) -> list[str]:
        """Prefix that has the kernel stop the component when the supervisor dies; util-linux has it or not."""
        setpriv = shutil.which("setpriv")
        return [setpriv, "--pdeathsig", self.component.stop_signal.name] if setpriv else []

    async def _wait_until_ready(self) -> None:
        assert self._process is not None
        assert self.component.ready is not None
        deadline = time.monotonic() + self.component.start_timeout
        trouble = ""
        while time.monotonic() < deadline:
            if self._process.returncode is not None:
                self._record_exit(self._process.returncode)
                raise StartError(self._exit_text(self._process.returncode))
            try:
                if await asyncio.to_thread(self.component.ready, self._context):
                    return
            except Exception as error:  # whatever a client raises while its server is not up
                trouble = f"; last answer: {error}"
            await asyncio.sleep(PROBE_SECONDS)
        raise NotReadyError(f"not ready after {self.component.start_timeout:.0f} s{trouble}")

    async def _recover(self) -> None:
        """Clear away what it left; wait before the next start if it crashed soon, longer each time it does."""
        lived = time.time() - self.state.since if self._was_ready else 0.0
        self._quick_crashes = 0 if lived > STEADY_SECONDS else self._quick_crashes + 1
        self.state.restarts += 1
        self._enter("backoff")
        await self._sweep()
        if self._quick_crashes:
            await asyncio.sleep(min(FIRST_BACKOFF * 2 ** (self._quick_crashes - 1), LONGEST_BACKOFF))

    async def _reap(self) -> None:
        """End a process whose start did not succeed."""
        identity = self.state.identity
        if self._process is None or identity is None:
            return
        await asyncio.to_thread(
            processes.stop, identity, self.component.stop_signal, self.component.stop_timeout
        )
        self._record_exit(await self._process.wait())

    async def _sweep(self) -> None:
        """End what the component left behind, so that a new one does not meet its old children."""
        left = await asyncio.to_thread(processes.marked, self._context.secrets.stack_id, self.component.name)
        await asyncio.to_thread(processes.kill, left)

    def _mark_up(self, phase: Phase) -> None:
        self._was_ready = True
        self.state.error = ""
        self._enter(phase)
        self.up.set()

    def _record_exit(self, code: int) -> None:
        self.state.exit_code, self.state.exited_at = code, time.time()
        self.state.pid = 0

    def _exit_text(self, code: int) -> str:
        how = f"killed by signal {-code}" if code < 0 else f"exited with {code}"
        return f"{how}\n{last_lines(self._context.config.log_file(self.component.name))}"

    def _enter(self, phase: Phase) -> None:
        self.state.phase = phase
        self.state.since = time.time()
        self._changed()


def last_lines(path: Path, count: int = SHOWN_LINES) -> str:
    """The end of a log."""
    try:
        with path.open(errors="replace") as handle:
            return "".join(deque(handle, maxlen=count)).rstrip()
    except OSError:
        return ""
