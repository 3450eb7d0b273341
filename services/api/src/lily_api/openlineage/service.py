"""OpenLineage events in: each stands or falls as a whole, for a 2xx promises all that it said."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from lily_api.auth.principal import Principal
from lily_api.ingest.service import check_all
from lily_common.envelope import AcceptedEvent
from lily_common.erasing.stoplist import Matcher
from lily_common.errors import LilyError
from lily_connectors.openlineage.normalise import normalise

#: A body above this is normalised off the event loop, so that one large event does not hold up the small ones.
LARGE_BODY = 64 * 1024


@dataclass(frozen=True, slots=True)
class Normalised:
    """One event's checked changes, or why it is refused."""

    changes: list[AcceptedEvent]
    error: LilyError | None


def normalise_one(
    principal: Principal, event: Any, request_id: str, erased: Matcher | None = None
) -> Normalised:
    try:
        changes = check_all(principal.tenant, normalise(event), request_id, principal.subject, erased)
        return Normalised(changes, None)
    except LilyError as error:
        return Normalised([], error)


async def normalise_all(
    principal: Principal, events: list[Any], request_id: str, size: int, erased: Matcher | None = None
) -> list[Normalised]:
    """Each event's changes, in order. `size` is the body's, in bytes."""

    def work() -> list[Normalised]:
        return [normalise_one(principal, event, request_id, erased) for event in events]

    return await asyncio.to_thread(work) if size > LARGE_BODY else work()
