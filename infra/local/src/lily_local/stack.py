"""A stack of one's own for tests: free ports, a folder that goes with it, gone when the caller is."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from lily_local import config as configuration
from lily_local import control, environment, jars, memory, ports, processes, state, tenant
from lily_local.components.registry import select
from lily_local.errors import UserError
from lily_local.state import ComponentState

_POLL = 0.05


class LocalStack:
    """The embedded stack (or `components` of it, with what they need) as a context manager.

    Without `home` its data lives in a temporary folder and is deleted at the end; without `base` its ports are any
    free block. Should the calling process be killed, the stack stops by itself.
    """

    def __init__(
        self, components: Sequence[str] | None = None, home: Path | None = None, base: int | None = None
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="lily-stack-") if home is None else None
        folder = Path(self._temporary.name) / "home" if self._temporary else Path(home or ".")
        self._wanted = components
        self.config = configuration.load(folder.absolute(), base or ports.free_base())
        self.env: dict[str, str] = {}
        self._stack_id = ""

    def start(self, timeout: float = 300) -> Self:
        """Start what is missing and wait for it; raises UserError with the end of a log when it fails."""
        started = control.start(self.config, self._wanted, tied=True)
        self.config, self._stack_id = started.config, started.secrets.stack_id
        names = [component.name for component in select(self._wanted)]
        try:
            control.wait(self.config, names, lambda _: None, timeout)
            kept = tenant.ensure(self.config, started.secrets) if "api" in names else started.secrets
        except BaseException:
            self.stop()
            raise
        self.env = {**environment.full(self.config, kept), "LILY_SPARK_JARS": jars.paths("spark")}
        return self

    def stop(self) -> None:
        """Stop everything; deletes the data if the folder is our own."""
        control.stop(self.config)
        if self._temporary is not None:
            self._temporary.cleanup()

    def component(self, name: str) -> ComponentState:
        """What the supervisor says of a component now."""
        components = state.read(self.config.state_file).components
        if name not in components:
            raise UserError(f"{name} is not part of this stack; it has {', '.join(components)}")
        return components[name]

    def pid_of(self, name: str) -> int:
        """Pid of the component's first process; raises UserError when it is not running."""
        pid = self.component(name).pid
        if not pid:
            raise UserError(f"{name} is not running")
        return pid

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal (kill -9) to the component's first process; returns the pid it had."""
        pid = self.pid_of(name)
        os.kill(pid, number)
        return pid

    def wait_ready(self, name: str, other_than: int = 0, timeout: float = 120) -> int:
        """Wait until the component is ready under a pid `other_than` the one that was killed; returns the new pid."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            now = self.component(name)
            if now.phase == "ready" and now.pid != other_than:
                return now.pid
            time.sleep(_POLL)
        raise UserError(f"{name} is not ready again after {timeout:.0f} s: {self.component(name).error}")

    def memory(self) -> int:
        """PSS in bytes of all the stack's processes together."""
        return memory.total(self.config)

    def pids(self) -> list[int]:
        """Every process that belongs to the stack, the supervisor included."""
        return [process.pid for process in processes.marked(self._stack_id)]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
