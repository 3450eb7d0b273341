"""The hedged pair's stagger: two identical queries whose batch boundaries must not fall together.

A Real-Time query stops for a moment at each boundary, while it commits. Its twin forwards meanwhile, if it is in the
middle of its own batch. Periods are never quite equal, so boundaries drift; whenever a query commits shortly after
its twin did, it is restarted half a period after the twin. It is stopped right after its own commit (nothing to
repeat) and right after the twin's (so that the twin has no boundary while it is alone).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from lily_common.logs import get_logger

log = get_logger(__name__)

#: Boundaries nearer than this part of a period are moved apart.
NEAR = 0.2


class Stagger:
    """Decides, at each boundary of either query, whether that query has to be moved."""

    def __init__(
        self, names: tuple[str, str], period: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._names = names
        self._period = period
        self._clock = clock
        self._boundary: dict[str, float] = {}
        self._wanted: tuple[str, float] | None = None
        self._lock = threading.Lock()

    def committed(self, name: str) -> None:
        """Query `name` has just ended a batch."""
        if name not in self._names:
            return
        now = self._clock()
        twin = self._names[1 - self._names.index(name)]
        with self._lock:
            self._boundary[name] = now
            since = now - self._boundary.get(twin, -self._period)
            if since < NEAR * self._period:
                self._wanted = (name, self._boundary[twin] + self._period / 2)

    def take(self) -> tuple[str, float] | None:
        """(query to restart, seconds until its start), once; None when the boundaries lie well apart."""
        with self._lock:
            wanted, self._wanted = self._wanted, None
        if wanted is None:
            return None
        name, start = wanted
        return name, max(0.0, start - self._clock())
