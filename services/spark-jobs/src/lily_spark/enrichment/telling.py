"""What enrichment tells: a tag attached or detached, a suggestion made or withdrawn, as an event."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

from lily_common import events as ev
from lily_common.envelope import rfc3339, state_version
from lily_spark.enrichment.index import ORIGIN, SOURCE, SUGGESTED
from lily_spark.propagation.telling import Trigger, moment, time_of


@dataclass(frozen=True)
class Told:
    """One change. `reason` says why the rule applies; None: it no longer does. `after`: a version to be greater than."""

    tenant: str
    rule: str
    tag: str
    action: str
    asset: str
    reason: str | None
    trigger: Trigger
    after: str

    @property
    def attached(self) -> bool:
        return self.reason is not None

    @cached_property
    def id(self) -> str:
        operation = "given" if self.attached else "taken"
        cause = (self.trigger.source, self.trigger.id)
        parts = (
            self.tenant,
            self.rule,
            *cause,
            self.asset,
            self.tag,
            self.action,
            operation,
            self.reason or "",
        )
        return blake2b("\x00".join(parts).encode(), digest_size=16).hexdigest()

    @cached_property
    def version(self) -> str:
        micros, sequence = moment(self.trigger, self.after)
        return state_version(time_of(micros), sequence, SOURCE, self.id)

    @property
    def event(self) -> dict[str, Any]:
        """The CloudEvent, before it is accepted."""
        micros, sequence = moment(self.trigger, self.after)
        event: dict[str, Any] = {
            "specversion": "1.0",
            "id": self.id,
            "source": SOURCE,
            "type": self._type,
            "time": rfc3339(time_of(micros)),
            "causesource": self.trigger.source,
            "causeid": self.trigger.id,
            "data": {"qualified_name": self.asset, **self._data()},
        }
        if sequence:
            event["sequence"] = str(sequence)
        return event

    @property
    def _type(self) -> str:
        if self.action == "suggest":
            return ev.ASSET_PATCHED
        return ev.TAG_ATTACHED if self.attached else ev.TAG_DETACHED

    def _data(self) -> dict[str, Any]:
        if self.action == "attach":
            data = {"tag": self.tag, "origin": ORIGIN + self.rule, "origin_kind": "rule"}
            return data | ({"reason": self.reason} if self.attached else {})
        if self.attached:
            return {"aspect": SUGGESTED, "set": {self.tag: {"rule": self.rule, "reason": self.reason}}}
        return {"aspect": SUGGESTED, "unset": [self.tag], "rule": self.rule}
