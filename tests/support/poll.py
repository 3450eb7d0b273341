"""Waiting for what comes in its own time: never a bare sleep, always a deadline and the last reason."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Thing = TypeVar("Thing")

#: Generous on purpose: it is a bound for the broken, not a claim about speed.
DEADLINE = 90.0


def until(
    probe: Callable[[], Thing], what: str = "", *, deadline: float = DEADLINE, pause: float = 0.1
) -> Thing:
    """The first truthy value of `probe`. An AssertionError of its counts as not yet.

    Raises AssertionError with the last reason when the deadline (seconds) passes.
    """
    end = time.monotonic() + deadline
    reason: object = "never true"
    while True:
        try:
            value = probe()
            if value:
                return value
            reason = f"last value {value!r}"
        except AssertionError as not_yet:
            reason = not_yet
        if time.monotonic() > end:
            raise AssertionError(f"{what or probe.__name__} not within {deadline:.0f} s: {reason}")
        time.sleep(pause)
