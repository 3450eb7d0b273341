"""What travels about commits."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from lily_api.schemas import Output, example


class CommitView(Output):
    """A commit as far as it is the tenant's: its number, and when its first and last event were accepted."""

    commit: int
    first_time: datetime
    last_time: datetime
    events: int


class CommitBounds(Output):
    """What can be read again. `found` answers the question, where one was asked."""

    model_config = example(
        {
            "first_commit": 12,
            "last_commit": 40_133,
            "first_time": "2026-01-02T10:00:00Z",
            "last_time": "2026-03-01T08:12:44.120000Z",
            "events": 1_204_551,
            "found": {
                "commit": 4711,
                "first_time": "2026-01-09T11:00:00.020000Z",
                "last_time": "2026-01-09T11:00:00.480000Z",
                "events": 37,
            },
        }
    )

    first_commit: int | None = Field(None, description="Null while nothing is kept")
    last_commit: int | None = None
    first_time: datetime | None = Field(
        None, description="Acceptance of the earliest event, to the millisecond"
    )
    last_time: datetime | None = Field(None, description="Acceptance of the latest event, to the millisecond")
    events: int = 0
    found: CommitView | None = Field(None, description="Null too when no commit answers the question")
