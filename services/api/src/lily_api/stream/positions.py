"""Where a stream stands: the next offset of each partition, also as the event id that a client sends back. Pure."""

from __future__ import annotations

import re

from lily_common.errors import FieldError, InvalidInputError

#: Partition -> next offset to read; a partition that is not named is read from its start.
Positions = dict[int, int]

_ID = re.compile(r"[0-9]{1,18}(-[0-9]{1,18}){0,255}")


def encode(positions: Positions) -> str:
    """Next offsets in the order of partitions, e.g. `17-0-5-21`; `0` before the topic exists."""
    last = max(positions, default=0)
    return "-".join(str(positions.get(partition, 0)) for partition in range(last + 1))


def decode(event_id: str) -> Positions:
    """Raises InvalidInputError when it is not an id of this stream."""
    if not _ID.fullmatch(event_id):
        wrong = "is not the id of an event of this stream"
        raise InvalidInputError(f"Last-Event-ID {wrong}", [FieldError("header.last-event-id", wrong)])
    return {partition: int(text) for partition, text in enumerate(event_id.split("-"))}
