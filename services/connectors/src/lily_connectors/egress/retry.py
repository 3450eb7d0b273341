"""When a failed delivery is tried again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

#: Upper bounds of the pauses, in seconds: eight attempts over about 18 hours on average, 35 at most.
DEFAULT_PAUSES: Final = (10.0, 120.0, 600.0, 3600.0, 14_400.0, 36_000.0, 72_000.0)
Pause = Annotated[float, Field(ge=0, le=7 * 24 * 3600)]


class RetryPolicy(BaseModel):
    """`pauses[n]` bounds the pause after attempt n + 1; there is one attempt more than pauses.

    Each pause is drawn evenly from zero to its bound ("full jitter"), so that a receiver that comes back is not met by
    all its senders at once: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    pauses: tuple[Pause, ...] = Field(
        DEFAULT_PAUSES, max_length=20, description="Upper bounds of the pauses between attempts, in seconds"
    )

    @property
    def max_attempts(self) -> int:
        return len(self.pauses) + 1

    def pause(
        self, tries: int, retry_after: float | None, uniform: Callable[[float, float], float]
    ) -> float | None:
        """Seconds to wait after `tries` attempts, at least what the receiver asked for; None when they are used up."""
        if tries > len(self.pauses):
            return None
        drawn = uniform(0.0, self.pauses[tries - 1])
        return max(drawn, retry_after or 0.0)
