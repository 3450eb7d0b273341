"""Times that clients name."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Query

from lily_common.envelope import parse_time
from lily_common.errors import FieldError, InvalidInputError

AsOf = Annotated[
    str | None,
    Query(
        max_length=64,
        description="RFC 3339 time: as it stood then",
        examples=["2026-01-02T10:00:00Z"],
    ),
]


def moment(text: str, name: str = "as_of") -> datetime:
    """The time in a query parameter. Raises InvalidInputError naming it."""
    try:
        # A plus sign that was not percent-encoded arrives as a space.
        return parse_time(text.replace(" ", "+"))
    except (ValueError, OverflowError) as invalid:
        reason = f"must be an RFC 3339 time with an offset ({invalid})"
        raise InvalidInputError(f"{name} {reason}", [FieldError(f"query.{name}", reason)]) from None
