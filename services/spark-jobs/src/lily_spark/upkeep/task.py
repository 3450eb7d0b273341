"""One kind of work that upkeep does again and again, in pieces: a command waits for a piece, never for all of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Task:
    """`run` does one piece. `due` looks beside the clock: a reason to run earlier than `every` seconds after the last run."""

    name: str
    every: float
    run: Callable[[], object]
    due: Callable[[], bool] = lambda: False
    last: float = 0.0
