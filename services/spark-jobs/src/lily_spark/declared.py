"""Rules as the API publishes them on a compacted topic, and their changes as causes of what follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

import orjson
from pydantic import AwareDatetime, BaseModel, Field

from lily_spark.propagation.telling import Trigger

Rule = TypeVar("Rule", bound=BaseModel)


class Declared(BaseModel, Generic[Rule], frozen=True):
    """One message: a tenant's rule as it is now."""

    tenant: str = Field(pattern=r"^[a-z][a-z0-9-]{1,38}[a-z0-9]$")
    name: str
    declaration: Rule
    updated_at: AwareDatetime

    @property
    def text(self) -> str:
        """What has to be the same for nothing to follow."""
        return orjson.dumps([self.declaration.model_dump(mode="json"), self.updated_at]).decode()


@dataclass(frozen=True)
class Topic(Generic[Rule]):
    """A kind of rules: the `name` of its topic, the `source` of their changes as events, the `group` that reads it."""

    name: str
    source: str
    group: str
    parse: Callable[[bytes], Declared[Rule]]

    def trigger(self, name: str, declared: Declared[Rule] | None) -> Trigger:
        """The change of the rule, or its removal now, as a cause."""
        moment = declared.updated_at if declared is not None else datetime.now(UTC)
        micros = int(moment.timestamp() * 1_000_000)
        return Trigger(micros, 0, self.source, f"{name}@{micros}")
