"""What a mirror task needs to know, small enough to travel to every worker with the task."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # workers do not need it, and its import costs each of them memory
    from lily_common.config import Settings
    from lily_common.erasing.stoplist import StopList


@dataclass(frozen=True)
class MirrorConfig:
    """Where the mirror is and how long things stay in it. `mongo_uri` may hold a password: it is not shown."""

    mongo_uri: str = field(repr=False)
    database: str
    dedupe: timedelta
    keep: timedelta
    keep_deleted: timedelta
    sensitive: dict[str, frozenset[str]] = field(default_factory=dict)
    """Tenant -> names of the fields that never reach the mirror."""
    stop: StopList | None = field(default=None, repr=False, compare=False)
    """What was erased and is not to come back; None: nothing."""

    @classmethod
    def of(
        cls,
        settings: Settings,
        sensitive: dict[str, frozenset[str]] | None = None,
        stop: StopList | None = None,
    ) -> MirrorConfig:
        return cls(
            mongo_uri=settings.mongo_uri.get_secret_value(),
            database=settings.mongo_database,
            dedupe=timedelta(days=settings.dedupe_days),
            keep=timedelta(days=settings.mirror_days),
            keep_deleted=timedelta(days=settings.tombstone_days),
            sensitive=sensitive or {},
            stop=stop,
        )

    def sensitive_of(self, tenant: str) -> frozenset[str]:
        return self.sensitive.get(tenant, frozenset())
