"""Each step proves its result with these: a condition that comes true in time, or a clear message."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from lily_cli.errors import ApiError

Value = TypeVar("Value")
_POLL = 0.1


class DemoError(Exception):
    """A step's result is not what it must be; the message says which and why."""


def require(condition: object, message: str) -> None:
    """Raise DemoError with the message unless the condition holds."""
    if not condition:
        raise DemoError(message)


def until(what: str, probe: Callable[[], Value | None], seconds: float, poll: float = _POLL) -> Value:
    """The first true answer of `probe`, asked again and again; 404 counts as not yet.

    Raises DemoError naming `what` when it does not come in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            if answer := probe():
                return answer
        except ApiError as error:
            if error.status != 404:
                raise
        if time.monotonic() > deadline:
            raise DemoError(f"{what}: not within {seconds:.0f} s")
        time.sleep(poll)
