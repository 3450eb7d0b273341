"""The rules as of now, from the compacted topic `lily.enrichment-rules`."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
from pydantic import AwareDatetime, BaseModel, Field

from lily_common.enrichment.rules import Rule
from lily_spark.propagation.telling import Trigger

GROUP = "lily-lake-enrichment-rules"
#: Source of the changes of rules, where one is the cause of what is told.
RULES_SOURCE = "/lily/enrichment-rules"


class Declared(BaseModel, frozen=True):
    """One message of `lily.enrichment-rules`."""

    tenant: str = Field(pattern=r"^[a-z][a-z0-9-]{1,38}[a-z0-9]$")
    name: str
    declaration: Rule
    updated_at: AwareDatetime

    @property
    def trigger(self) -> Trigger:
        """The change of the rule, as the cause of what follows from it."""
        return _trigger(self.name, self.updated_at)

    @property
    def text(self) -> str:
        """What has to be the same for nothing to follow."""
        return orjson.dumps([self.declaration.model_dump(mode="json"), self.updated_at]).decode()


def gone(name: str) -> Trigger:
    """The removal of a rule, as a cause."""
    return _trigger(name, datetime.now(UTC))


def parse(value: bytes) -> Declared:
    """Raises ValueError for what is no rule: the last good one of its key then holds."""
    return Declared.model_validate(orjson.loads(value))


def _trigger(name: str, moment: datetime) -> Trigger:
    micros = int(moment.timestamp() * 1_000_000)
    return Trigger(micros, 0, RULES_SOURCE, f"{name}@{micros}")
