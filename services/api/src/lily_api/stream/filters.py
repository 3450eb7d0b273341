"""Which events a stream shows. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lily_common.errors import FieldError, InvalidInputError
from lily_common.events import FANOUT_TYPES, TYPE_PREFIX


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """Empty means any. The parts narrow together; `types` hold full names."""

    types: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    asset_prefix: str = ""

    def matches(self, event: dict[str, Any]) -> bool:
        data = event.get("data")
        return (
            (not self.types or event.get("type") in self.types)
            and (not self.tags or (isinstance(data, dict) and data.get("tag") in self.tags))
            and str(event.get("subject", "")).startswith(self.asset_prefix)
        )

    @property
    def passes_all(self) -> bool:
        return not (self.types or self.tags or self.asset_prefix)


def full_types(names: list[str]) -> frozenset[str]:
    """Full names of types given with or without `lily.`. Raises InvalidInputError for one that is not streamed."""
    full = frozenset(name if name.startswith(TYPE_PREFIX) else TYPE_PREFIX + name for name in names)
    if wrong := full - frozenset(FANOUT_TYPES):
        message = f"is not streamed: {', '.join(sorted(wrong))[:200]}; expected {', '.join(FANOUT_TYPES)}"
        raise InvalidInputError(f"type {message}", [FieldError("query.type", message)])
    return full
