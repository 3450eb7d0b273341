"""What a change would do, told without doing it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from lily_common.envelope import accept
from lily_common.state import register_keys
from lily_spark.propagation.facts import Row
from lily_spark.propagation.telling import Told

#: Changes that are shown one by one; the rest is counted.
MOST_SHOWN = 1_000
_SOURCE = "/lily/preview"


def hypothetical(tenant: str, changes: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """The registers that these changes would write if they were accepted now. Raises InvalidInputError."""
    for number, change in enumerate(changes):
        event = {"specversion": "1.0", "id": str(number), "source": _SOURCE, **change}
        accepted = orjson.loads(accept(tenant, event, datetime.now(UTC)).value)
        for key in register_keys(accepted["type"], accepted["source"], accepted["data"]):
            yield Row(
                tenant, accepted["subject"], key, accepted["type"], accepted["stateversion"], accepted["data"]
            )


def summary(told: Sequence[Told]) -> dict[str, Any]:
    """How many assets would get or lose what, and which: the nearest first."""
    shown = sorted(told, key=lambda each: (len(each.way), each.asset, each.what, each.rule))[:MOST_SHOWN]
    return {
        "attached": sum(each.attached for each in told),
        "detached": sum(not each.attached for each in told),
        "assets": len({each.asset for each in told}),
        "changes": [
            {
                "qualified_name": each.asset,
                "operation": "attached" if each.attached else "detached",
                "tag": each.what,
                "rule": each.rule,
                "origin": each.origin,
                "path": list(each.way),
            }
            for each in shown
        ],
    }
