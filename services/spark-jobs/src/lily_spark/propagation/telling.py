"""What propagation tells: a derived tag attached or detached, an inherited value set or gone, as an event.

The event's time is that of its cause, and its id is made from rule, cause, origin, asset, what travels and the operation, so
that the same event is made again after a crash. Where a register holds a later version already (its graph changed by
events that came late), the derived event takes that version's time and the next sequence number.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import blake2b
from typing import Any

import orjson

from lily_common import events as ev
from lily_common.envelope import rfc3339, state_version
from lily_common.state import SEPARATOR

#: Source of the events that propagation makes.
SOURCE = "/lily/propagation"
#: Characters that an origin may have (`lily_common.events.KeyText`).
_MAX_ORIGIN = 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, order=True)
class Trigger:
    """The event on whose account something is told. Ordered as versions are."""

    micros: int
    sequence: int
    source: str
    id: str

    @classmethod
    def of(cls, version: str) -> Trigger:
        """From a state version (`lily_common.envelope.state_version`)."""
        micros, sequence, rest = version.split(".", 2)
        source, _, event_id = rest.partition(" ")
        return cls(int(micros), int(sequence), source, event_id)


def moment(trigger: Trigger, after: str) -> tuple[int, int]:
    """(microseconds since 1970, sequence) of what is told on account of `trigger` and has to overtake version `after`."""
    if not after:
        return trigger.micros, 0
    last = Trigger.of(after)
    if trigger.micros > last.micros:
        return trigger.micros, 0
    return last.micros, last.sequence + 1


def time_of(micros: int) -> datetime:
    """The moment so many microseconds after 1970 began."""
    return _EPOCH + timedelta(microseconds=micros)


@dataclass(frozen=True)
class Told:
    """One change of what an asset has by propagation. `way` leads from the origin to the asset, both included."""

    tenant: str
    rule: str
    what: str
    is_property: bool
    asset: str
    origin: str
    way: tuple[str, ...]
    attached: bool
    value: Any
    trigger: Trigger
    #: The version that this one has to be greater than; "" when there is none.
    after: str

    @cached_property
    def id(self) -> str:
        operation = "attached" if self.attached else "detached"
        cause = (self.trigger.source, self.trigger.id)
        value = orjson.dumps(self.value, option=orjson.OPT_SORT_KEYS).decode()
        parts = (
            self.tenant,
            self.rule,
            *cause,
            self.origin,
            self.asset,
            self.what,
            operation,
            value,
            *self.way,
        )
        return blake2b("\x00".join(parts).encode(), digest_size=16).hexdigest()

    @cached_property
    def version(self) -> str:
        micros, sequence = moment(self.trigger, self.after)
        return state_version(time_of(micros), sequence, SOURCE, self.id)

    @property
    def type(self) -> str:
        if self.is_property:
            return ev.PROPERTY_INHERITED
        return ev.TAG_ATTACHED if self.attached else ev.TAG_DETACHED

    @property
    def event(self) -> dict[str, Any]:
        """The CloudEvent, before it is accepted."""
        micros, sequence = moment(self.trigger, self.after)
        event: dict[str, Any] = {
            "specversion": "1.0",
            "id": self.id,
            "source": SOURCE,
            "type": self.type,
            "time": rfc3339(time_of(micros)),
            "causesource": self.trigger.source,
            "causeid": self.trigger.id,
            "data": self._data(),
        }
        if sequence:
            event["sequence"] = str(sequence)
        return event

    def _data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"qualified_name": self.asset}
        if self.is_property:
            data |= {"property": self.what, "value": self.value if self.attached else None}
        else:
            data |= {"tag": self.what, "origin": origin_text(self.rule, self.origin)}
        data |= {"origin_kind": "propagated", "origin_asset": self.origin, "rule": self.rule}
        if self.attached:
            data |= {"path": list(self.way), "depth": len(self.way) - 1}
        return data


def origin_text(rule: str, origin: str) -> str:
    """The key under which a derived tag stands beside those of other origins; its parts are those of a register's key."""
    text = f"{rule}{SEPARATOR}{origin}"
    if len(text) <= _MAX_ORIGIN:
        return text
    return f"{rule}{SEPARATOR}#{blake2b(origin.encode(), digest_size=16).hexdigest()}"
