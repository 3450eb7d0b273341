"""What is left of events past their time: the registers as they stood when the first date that is kept began."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

from lily_api.lake.tables import EVENTS, PAST, Tables, literal, past_not_kept
from lily_common.envelope import rfc3339

#: Transaction application of bronze.events whose version is the first date kept, in days since 1970.
KEPT_FROM = "lily/events/kept-from"
_EPOCH = date(1970, 1, 1)
_COLUMNS = ["subject", "register", "type", "version", "data"]


def kept(tables: Tables, at: datetime) -> bool:
    """Whether events have left the lake that this time builds on; what they came to is then in `left`.

    Raises InvalidInputError when the state of `at` cannot be told any more.
    """
    days = tables.transaction(EVENTS, KEPT_FROM)
    if days is None:
        return False
    first = _EPOCH + timedelta(days=days)
    if at.astimezone(UTC).date() < first:
        raise past_not_kept(f"is before {first.isoformat()}: older events are no longer kept")
    return True


def left(tables: Tables, tenant: str, at: datetime, condition: str) -> Iterator[tuple[Any, ...]]:
    """(subject, register, type, version, data as text) of the tenant's rows accepted up to `at` that fit `condition`."""
    if kept(tables, at):
        moment = f"accepted_time <= '{rfc3339(at)}'"
        yield from tables.scan(PAST, _COLUMNS, f"tenant = {literal(tenant)} AND {moment} AND {condition}")
