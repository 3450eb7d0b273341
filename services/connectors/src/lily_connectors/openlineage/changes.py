"""Collects the changes that one OpenLineage event makes, with ids that a retry of the same event makes again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import orjson

from lily_common import events as ev
from lily_common.errors import FieldError, InvalidInputError

#: More than this from one event is a mistake or an attack (inputs times outputs grows fast).
MAX_CHANGES = 20_000
DEFAULT_SOURCE = "urn:lily:openlineage"
_NOT_IN_SOURCE = re.compile(r"[\x00-\x20\x7f|\ud800-\udfff]")

Event = dict[str, Any]


class Changes:
    """Appends CloudEvents; all have the event's time, sequence and source.

    An id is the hash of the whole event and the change's ordinal, so that the same event sent again dedupes.
    """

    def __init__(self, event: Mapping[str, Any], time: str, sequence: int) -> None:
        try:
            canonical = orjson.dumps(event, option=orjson.OPT_SORT_KEYS)
        except TypeError as invalid:  # nested deeper than orjson writes, though it reads so deep
            error = FieldError("", f"cannot be written as JSON ({invalid})")
            raise InvalidInputError(error.message, [error]) from None
        self._digest = hashlib.sha256(canonical).hexdigest()[:40]
        self._time = time
        self._sequence = str(sequence)
        self._source = source_of(event.get("producer"))
        self.events: list[Event] = []

    def add(self, event_type: str, data: dict[str, Any]) -> None:
        """One more change. Raises InvalidInputError (422) when there are too many."""
        if len(self.events) >= MAX_CHANGES:
            error = FieldError("", f"the event makes more than {MAX_CHANGES} changes; send it in parts")
            raise InvalidInputError(error.message, [error], code="too-many-changes")
        self.events.append(
            {
                "specversion": "1.0",
                "id": f"{self._digest}.{len(self.events)}",
                "source": self._source,
                "type": event_type,
                "time": self._time,
                "sequence": self._sequence,
                "data": data,
            }
        )

    def patch(
        self, qualified_name: str, asset_type: str, fields: Mapping[str, Any], aspect: str = "core"
    ) -> None:
        """Overlay these fields; nothing is sent when there are none.

        A name that is the qualified name's last part goes without saying: every field is a register to keep.
        """
        known = {name: value for name, value in fields.items() if value is not None}
        if aspect == "core" and known.get("name") == qualified_name.rsplit("/", 1)[-1]:
            del known["name"]
        if known:
            data = {
                "qualified_name": qualified_name,
                "asset_type": asset_type,
                "aspect": aspect,
                "set": known,
            }
            self.add(ev.ASSET_PATCHED, data)


def source_of(producer: Any) -> str:
    """The event's `producer` as a CloudEvents source (a URI reference without spaces or '|')."""
    if not isinstance(producer, str) or not producer:
        return DEFAULT_SOURCE
    return _NOT_IN_SOURCE.sub("_", producer)[:256]
