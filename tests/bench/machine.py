"""What the machine did meanwhile: time stolen from each core by its neighbours, CPU time of our processes and of others'."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

#: Above this share of a core's time, in percent, a latency figure says more of the neighbours than of us.
NOISY = 5.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class _Core:
    """One core's time since boot, in ticks."""

    stolen: int
    idle: int
    total: int


def _cores() -> dict[str, _Core]:
    """By name. `/proc/stat`: user nice system idle iowait irq softirq steal."""
    cores = {}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name != "cpu":
            ticks = [int(value) for value in values[:8]]
            cores[name] = _Core(stolen=ticks[7], idle=ticks[3] + ticks[4], total=sum(ticks))
    return cores


class Steal:
    """A context: afterwards `percent` holds the stolen share of each core over its time, in percent.

    `busy` is the CPU time that all processes of the machine used together, in seconds.
    """

    def __init__(self) -> None:
        self.percent: dict[str, float] = {}
        self.busy = 0.0

    def __enter__(self) -> Steal:
        self._before = _cores()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, core in _cores().items():
            before = self._before[name]
            total = core.total - before.total
            stolen = core.stolen - before.stolen
            self.percent[name] = round(100 * stolen / max(1, total), 2)
            self.busy += (total - stolen - (core.idle - before.idle)) / _TICKS

    @property
    def noisy(self) -> bool:
        return any(share > NOISY for share in self.percent.values())


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time so far of these processes and their living children, in seconds."""
    total = 0.0
    for pid in pids:
        try:
            process = psutil.Process(pid)
            for member in [process, *process.children(recursive=True)]:
                times = member.cpu_times()
                total += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return total


@dataclass
class CpuByName:
    """CPU time by component over a window: `start()`, then `seconds()`."""

    pids: Mapping[str, int]

    def start(self) -> None:
        self._before = {name: cpu_seconds([pid]) for name, pid in self.pids.items()}

    def seconds(self) -> dict[str, float]:
        return {name: round(cpu_seconds([pid]) - self._before[name], 2) for name, pid in self.pids.items()}


def own_cpu_seconds() -> float:
    """CPU time so far of this process and of its children, ended or not."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return cpu_seconds([os.getpid()]) + ended.ru_utime + ended.ru_stime
