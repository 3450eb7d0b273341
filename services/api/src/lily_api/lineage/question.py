"""What is asked of a walk."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lily_api.lineage.schemas import Direction, Level


@dataclass(frozen=True, slots=True)
class Question:
    """The lineage of `root`, at most `depth` edges away; `level` None takes edges of every kind, `at` None is now."""

    tenant: str
    root: str
    direction: Direction
    depth: int
    level: Level | None
    at: datetime | None = None
