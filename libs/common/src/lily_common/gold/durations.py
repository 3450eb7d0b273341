"""Spans of time as declarations write them: `90s`, `30m`, `1h`, `7d`, or a number of seconds."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_FORM = re.compile(r"([0-9]{1,7})\s*([smhd])")
_LONGEST = 3_650 * 86_400


def seconds(value: Any) -> int:
    """The span in seconds. Raises ValueError."""
    if isinstance(value, timedelta):
        value = int(value.total_seconds())
    if isinstance(value, str) and (match := _FORM.fullmatch(value.strip())):
        value = int(match[1]) * _UNITS[match[2]]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LONGEST:
        raise ValueError("a span of time is wanted, such as 90s, 30m, 1h or 7d")
    return value


#: Held, and written back, in seconds.
Seconds = Annotated[
    int,
    BeforeValidator(seconds),
    WithJsonSchema({"anyOf": [{"type": "string", "examples": ["30m"]}, {"type": "integer", "minimum": 0}]}),
]
