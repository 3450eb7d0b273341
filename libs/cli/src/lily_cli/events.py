"""CloudEvents as the command line makes and reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

from lily_cli.errors import UsageError

SOURCE: Final = "urn:lily:cli"
Json = dict[str, Any]


def make(event_type: str, data: Json, *, source: str = SOURCE) -> Json:
    """A new event, without a time: it is then the time of acceptance."""
    return {"specversion": "1.0", "id": str(uuid4()), "source": source, "type": event_type, "data": data}


def read(text: str) -> list[Json]:
    """The events of a file: one JSON object, an array, or an object a line. Raises UsageError naming the line."""
    try:
        whole = json.loads(text)
    except ValueError:
        return list(_lines(text))
    listed = whole if isinstance(whole, list) else [whole]
    if not all(isinstance(item, dict) for item in listed):
        raise UsageError("an event is a JSON object")
    return listed


def _lines(text: str) -> Iterator[Json]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except ValueError as broken:
            raise UsageError(f"line {number} is not JSON: {broken}") from None
        if not isinstance(event, dict):
            raise UsageError(f"line {number} is not a JSON object")
        yield event
