"""What the machine did meanwhile: time stolen from each core by its neighbours, CPU time of our processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

#: Above this share of a core's time, in percent, a latency figure says more of the neighbours than of us.
NOISY = 5.0


def _cores() -> dict[str, tuple[int, int]]:
    """core -> (stolen, all) in ticks. `/proc/stat`: user nice system idle iowait irq softirq steal."""
    cores = {}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name != "cpu":
            ticks = [int(value) for value in values[:8]]
            cores[name] = (ticks[7], sum(ticks))
    return cores


@dataclass
class Steal:
    """A context: afterwards `percent` holds the stolen share of each core over its time, in percent."""

    percent: dict[str, float]

    def __init__(self) -> None:
        self.percent = {}

    def __enter__(self) -> Steal:
        self._before = _cores()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for core, (stolen, total) in _cores().items():
            was_stolen, was_total = self._before[core]
            self.percent[core] = round(100 * (stolen - was_stolen) / max(1, total - was_total), 2)

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
