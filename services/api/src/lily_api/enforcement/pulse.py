"""How far a view of the notices has come, as heartbeats tell."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

import orjson

from lily_common.events import PRIORITY_TOPIC
from lily_common.kafka import Record


class Pulse:
    """Heartbeats of one reader: sent with the changes on each of `lanes`, and seen again among the notices.

    A heartbeat that was sent at a time and is back says that the view holds whatever had been accepted by then on its
    lane. Times are of this process's `time.monotonic`, so that clocks need not agree. One thread notes, any asks.
    """

    def __init__(self, lanes: Sequence[bytes]) -> None:
        self._name = secrets.token_hex(8)
        self._seen = dict.fromkeys(lanes, float("-inf"))

    def beat(self) -> list[Record]:
        """One heartbeat for each lane, to be sent now."""
        value = orjson.dumps({"by": self._name, "at": time.monotonic()})
        return [Record(PRIORITY_TOPIC, lane, value) for lane in self._seen]

    def note(self, key: bytes, value: bytes | None) -> None:
        """A heartbeat was read; others' say nothing."""
        try:
            told = orjson.loads(value or b"")
            by, at = told["by"], float(told["at"])
        except (ValueError, KeyError, TypeError):
            return
        if by == self._name and at > self._seen.get(key, float("inf")):
            self._seen[key] = at

    @property
    def complete_until(self) -> float:
        """The view holds what was accepted by then; minus infinity before every lane's first heartbeat is back."""
        return min(self._seen.values())
