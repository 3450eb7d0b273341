"""Random but repeatable lives of assets, for runs in which something is killed.

Each asset is one chain: its events leave one after the other, so that their order is known and every change of a tag
can be demanded. All register kinds occur, on both lanes; tags come from two origins, are re-asserted and taken back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.journal import Request

SOURCE = "/workload"
TAGS = ("PII", "GDPR")
ORIGINS = ("direct", "scanner")
Step = Callable[[random.Random, str], tuple[str, dict[str, Any]]]


def _upsert(pick: random.Random, asset: str) -> tuple[str, dict[str, Any]]:
    kind = "column" if "/column_" in asset else "table"
    return "asset.upserted", {"asset_type": kind, "name": asset.rsplit("/", 1)[1], "owners": [_word(pick)]}


def _patch(pick: random.Random, asset: str) -> tuple[str, dict[str, Any]]:
    kind = "column" if "/column_" in asset else "table"
    data: dict[str, Any] = {"asset_type": kind, "set": {"description": _word(pick), "name": None}}
    if pick.random() < 0.3:
        data["unset"] = ["owners"]
    return "asset.patched", data


def _owner(pick: random.Random, asset: str) -> tuple[str, dict[str, Any]]:
    return "owner.changed", {"owners": [_word(pick), _word(pick)]}


def _tag(pick: random.Random, asset: str) -> tuple[str, dict[str, Any]]:
    kind = "classification.attached" if pick.random() < 0.6 else "classification.detached"
    return kind, {"tag": pick.choice(TAGS), "origin": pick.choice(ORIGINS)}


def _incident(pick: random.Random, asset: str) -> tuple[str, dict[str, Any]]:
    kind = pick.choice(("opened", "updated", "resolved"))
    return f"incident.{kind}", {"incident_id": f"i{pick.randrange(2)}", "title": _word(pick)}


def _edge(pick: random.Random, asset: str) -> tuple[str, dict[str, Any]]:
    kind = "lineage.edge.added" if pick.random() < 0.7 else "lineage.edge.removed"
    return kind, {"upstream": f"{asset}_source_{pick.randrange(2)}", "downstream": asset}


def _delete(pick: random.Random, asset: str) -> tuple[str, dict[str, Any]]:
    return "asset.deleted", {}


#: Deletes are rare and, with tags, on assets of their own: after one, what is owed is the delete's news.
_STEPS: dict[Step, int] = {_tag: 8, _upsert: 3, _patch: 3, _owner: 1, _incident: 2, _edge: 2}
_MORTAL: dict[Step, int] = {_upsert: 4, _patch: 3, _delete: 3, _edge: 2, _incident: 2}


def lives(tenant: str, seed: int, *, rate: float, seconds: float, assets: int = 60) -> Iterator[Request]:
    """Single events at `rate` a second over `assets` chains; a fifth of the assets dies and comes back."""
    pick = random.Random(seed)
    base = "postgres://shop-db:5432/shop/public"
    names = [
        f"{base}/table_{number // 2}" + (f"/column_{number}" if number % 2 else "")
        for number in range(assets)
    ]
    start = datetime.now(UTC)
    for number in range(int(rate * seconds)):
        due = number / rate
        place = pick.randrange(assets)
        steps = _MORTAL if place % 5 == 0 else _STEPS
        step = pick.choices(list(steps), weights=list(steps.values()))[0]
        kind, data = step(pick, names[place])
        if not kind.startswith("lineage"):
            data = {"qualified_name": names[place], **data}
        late = timedelta(seconds=pick.choice((0, 0, 0, 0, 5)))  # one in five is older than what came before
        made = {
            "specversion": "1.0",
            "id": f"{seed}-{number}",
            "source": SOURCE,
            "type": f"lily.{kind}",
            "time": (start + timedelta(seconds=due) - late).isoformat(),
            "data": data,
        }
        yield Request(due, tenant, [made], chain=f"{tenant}|{names[place]}")


def _word(pick: random.Random) -> str:
    return f"w{pick.randrange(1000)}"
