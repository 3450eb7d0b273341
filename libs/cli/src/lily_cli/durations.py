"""Durations as people type them: `30s`, `15m`, `12h`, `90d`."""

from __future__ import annotations

import re
from datetime import timedelta

from lily_cli.errors import UsageError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_duration(text: str, option: str) -> timedelta:
    """The duration; raises UsageError naming the option."""
    match = re.fullmatch(r"(\d{1,6})([smhdw])", text.strip())
    if match is None:
        raise UsageError(f"{option}: '{text}' is no duration; write e.g. 30s, 15m, 12h, 90d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})
