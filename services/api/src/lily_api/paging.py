"""Cursors: opaque to the client, a short JSON list of the last row's sort key inside."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
from fastapi import Query

from lily_common.errors import FieldError, InvalidInputError

Limit = Annotated[int, Query(ge=1, le=500, description="Items per page")]
Cursor = Annotated[str | None, Query(max_length=4096, description="`next_cursor` of the page before")]


def encode(*key: str | float | bool | None) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(key)).decode().rstrip("=")


def decode(cursor: str | None, *kinds: type[str] | type[int]) -> tuple[Any, ...] | None:
    """The sort key in `cursor`, of exactly these kinds; None without a cursor. Raises InvalidInputError."""
    if not cursor:
        return None
    key = _loaded(cursor)
    fits = (
        isinstance(key, list)
        and len(key) == len(kinds)
        and all(type(part) is kind for part, kind in zip(key, kinds, strict=True))
        and not any(isinstance(part, str) and "\x00" in part for part in key)
        and not any(isinstance(part, int) and abs(part) > 2**62 for part in key)
    )
    if not fits:
        raise _not_a_cursor()
    return tuple(key)


def decode_values(cursor: str | None) -> list[Any] | None:
    """Plain values in `cursor`, whose number and types the caller checks. Raises InvalidInputError."""
    if not cursor:
        return None
    key = _loaded(cursor)
    if not isinstance(key, list) or not all(isinstance(part, str | int | float | None) for part in key):
        raise _not_a_cursor()
    return key


def encode_time_id(at: datetime, identifier: str) -> str:
    """Cursor of a list ordered by creation time and id."""
    return encode(at.astimezone(UTC).isoformat(), identifier)


def decode_time_id(cursor: str | None) -> tuple[datetime, str] | None:
    key = decode(cursor, str, str)
    if key is None:
        return None
    try:
        at = datetime.fromisoformat(key[0])
    except ValueError:
        raise _not_a_cursor() from None
    if at.tzinfo is None:
        raise _not_a_cursor()
    return at, key[1]


def _loaded(cursor: str) -> Any:
    try:
        return orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError):
        return None


def _not_a_cursor() -> InvalidInputError:
    wrong = "not a cursor of this list"
    return InvalidInputError(wrong, [FieldError("query.cursor", wrong)])
