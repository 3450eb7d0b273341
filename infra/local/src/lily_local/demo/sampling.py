"""Peak memory of everything together: the stack, this process and the Spark job it started, sampled all along."""

from __future__ import annotations

import contextlib
import os
import threading
from types import TracebackType
from typing import Self

import psutil

from lily_local import memory, processes, state
from lily_local.config import StackConfig

_INTERVAL = 2.0  # a sample walks every mapping of every process, which costs CPU time


class MemorySampler:
    """Samples summed PSS in bytes on its own thread; a context manager."""

    def __init__(self, config: StackConfig) -> None:
        self._config = config
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.peak = 0
        self.peak_by_process: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(_INTERVAL):
            with contextlib.suppress(psutil.Error, OSError):  # one ended while it was looked at: next time
                self.sample()

    def sample(self) -> None:
        """One sample. What the stack's supervisor runs below this process is counted once."""
        sizes = memory.by_component(self._config)
        ours = processes.identify(os.getpid())
        if ours is not None:
            family = processes.family([ours])
            stack = set(self._stack_pids())
            sizes["demo and its Spark job"] = processes.pss_bytes(
                [process for process in family if process.pid not in stack]
            )
        total = sum(sizes.values())
        if total > self.peak:
            self.peak, self.peak_by_process = total, sizes

    def _stack_pids(self) -> list[int]:
        supervisor = state.read(self._config.state_file).supervisor
        return [] if supervisor is None else [process.pid for process in processes.family([supervisor])]
