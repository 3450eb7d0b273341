"""A rebuild's work on one chunk of whole assets, in a worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NamedTuple

import orjson

from lily_common.documents import ASSETS, EDGES, INCIDENTS, StoredRegister
from lily_spark.mirror import assets, document, relations
from lily_spark.mirror.changes import AssetChange, Changes
from lily_spark.mirror.chunk import MAX_BYTES, MAX_EVENTS
from lily_spark.mirror.settings import MirrorConfig
from lily_spark.mirror.store import open_mirror

_EVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Rebuild:
    """One run. `id` marks what it has come upon (empty: nothing); `settled` None: nothing may be removed."""

    id: str
    settled: datetime | None


class SilverRow(NamedTuple):
    """One register row of silver.assets, in this order. `accepted_time` is naive, in the worker's own zone, as PySpark gives it."""

    tenant: str
    subject: str
    register: str
    type: str
    version: str
    data: str
    accepted_time: datetime


def whole_assets(rows: Iterable[SilverRow], config: MirrorConfig) -> Iterator[Changes]:
    """Rows, an asset's next to each other, as changes of bounded size; no asset is split.

    Several rows of one register may come: the greatest version holds.
    """
    changes, size = Changes(), 0
    for (tenant, subject), group in groupby(rows, key=lambda row: (row.tenant, row.subject)):
        asset = changes.asset(tenant, subject)
        for row in group:
            accepted = row.accepted_time.astimezone(UTC)
            register = StoredRegister(row.type, row.version, orjson.loads(row.data), accepted)
            changes.put(tenant, subject, row.register, register, config.sensitive_of(tenant))
            asset.size += len(row.data) + len(row.version) + len(row.register) + 100
        size += asset.size
        if size > MAX_BYTES or len(changes.assets) >= MAX_EVENTS:
            yield changes
            changes, size = Changes(), 0
    if changes.assets:
        yield changes


def write(changes: Changes, config: MirrorConfig, run: Rebuild) -> dict[str, int]:
    """Bring one chunk of whole assets into the mirror; returns counts by name."""
    mirror = open_mirror(config)
    now = datetime.now(UTC)
    mark = {"seen": run.id} if run.id else {}

    def merge(stored: Any, change: AssetChange) -> dict[str, Any]:
        new = document.rebuilt(stored, change, config, run.settled or _EVER)
        if new["expires_at"] <= now and not new["deleted"]:
            new = document.stub(change.tenant, change.qualified_name, new["rev"]) | {"size": 0}
        return new | mark

    for collection, documents in ((EDGES, changes.edges), (INCIDENTS, changes.incidents)):
        relations.upsert(mirror[collection], [found | mark for found in documents.values()], over="$lte")
    outcome = assets.write(mirror[ASSETS], changes.assets, merge)
    return {
        "assets": len(changes.assets),
        "edges": len(changes.edges),
        "incidents": len(changes.incidents),
        "too_large": len(outcome.too_large),
    }
