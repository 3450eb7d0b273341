"""What a full computation found to differ: how much, and some of it row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from lily_spark.gold.merging import OP, UPSERT
from lily_spark.gold.plan import Plan

SHOWN = 20


@dataclass(frozen=True)
class Drift:
    """`rows` the table has (-1: not counted), `count` of them differed, `repaired` were put right."""

    rows: int
    count: int
    repaired: int
    examples: list[dict[str, Any]]


def examples(plan: Plan, different: DataFrame, shown: int = SHOWN) -> list[dict[str, Any]]:
    """Some of the rows that differ: `key`, `kind` (missing, wrong, too much), `columns` {name: {is, should}}."""
    key = plan.spec.key
    found = []
    for row in different.orderBy(*key).limit(shown).collect():
        held = row["old"].asDict() if row["old"] is not None else None
        should = {name: row[name] for name in plan.spec.columns} if row[OP] == UPSERT else None
        kind = "missing" if held is None else "wrong" if should is not None else "too much"
        columns = {
            name: {
                "is": _plain(held[name] if held else None),
                "should": _plain(should[name] if should else None),
            }
            for name in plan.spec.columns
            if name not in key and (held or {}).get(name) != (should or {}).get(name)
        }
        found.append({"key": {name: _plain(row[name]) for name in key}, "kind": kind, "columns": columns})
    return found


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str | type(None)) else str(value)
