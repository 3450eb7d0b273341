"""What enrichment knows: how assets look, and what was told of them, in an index on the local disk.

How assets look is `propagation.facts`; it can be made anew from the lake at any time, what was told included.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from lily_common import events as ev
from lily_common.enrichment.rules import Asset as Seen
from lily_common.state import SEPARATOR
from lily_spark.propagation.facts import Facts, Row

#: Fields of an asset that rules look at.
FIELDS = frozenset({"name", "data_type", "terms", "sample_values"})
#: Source of the events that enrichment makes.
SOURCE = "/lily/enrichment"
ORIGIN = "enrichment:"
SUGGESTED = "suggested"
_MOST_SAMPLES = 1_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS given(
  asset INTEGER, rule TEXT, tag TEXT, action TEXT, version TEXT NOT NULL, live INTEGER NOT NULL,
  PRIMARY KEY(asset, rule, tag, action)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS given_by ON given(rule, asset) WHERE live;
"""


@dataclass(frozen=True, slots=True)
class Given:
    """What a rule has told of an asset: `action` is attach or suggest."""

    rule: str
    tag: str
    action: str
    version: str


class Index(Facts):
    """The index at `path` (a file, or ":memory:"). One thread at a time."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(path, FIELDS)
        self._db.executescript(_SCHEMA)

    def seen(self, number: int) -> Seen | None:
        """What rules look at; None for an asset that is not there."""
        asset = self.asset(number)
        if not asset.newest or not asset.alive:
            return None
        name = self.value(number, "name")
        kind = self.value(number, "data_type")
        return Seen(
            qualified_name=asset.name,
            name=name if isinstance(name, str) else asset.name.rpartition("/")[2],
            asset_type=asset.asset_type,
            data_type=kind if isinstance(kind, str) else None,
            terms=_texts(self.value(number, "terms")),
            samples=_texts(self.value(number, "sample_values"))[:_MOST_SAMPLES],
        )

    def all_of(self, tenant: str) -> list[int]:
        return [number for (number,) in self._db.execute("SELECT id FROM assets WHERE tenant = ?", (tenant,))]

    def given(self, number: int, rule: str | None = None) -> list[Given]:
        """What was told of the asset and holds (by the rule, or by any)."""
        rows = self._db.execute(
            "SELECT rule, tag, action, version FROM given WHERE asset = ? AND live AND version > ?",
            (number, self.asset(number).grave),
        )
        return [Given(*row) for row in rows if rule is None or row[0] == rule]

    def last(self, number: int, rule: str, tag: str, action: str) -> str:
        """The version of what was told last; "" for nothing."""
        row = self._db.execute(
            "SELECT version FROM given WHERE asset = ? AND rule = ? AND tag = ? AND action = ?",
            (number, rule, tag, action),
        ).fetchone()
        return "" if row is None else str(row[0])

    def give(self, number: int, rule: str, tag: str, action: str, version: str, *, live: bool) -> None:
        self._db.execute(
            "INSERT INTO given VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET version = excluded.version, "
            "live = excluded.live WHERE excluded.version > version",
            (number, rule, tag, action, version, live),
        )

    def withdraw(self, number: int, rule: str, tag: str, action: str) -> None:
        """It holds no longer, without anything being told: another rule says the same."""
        self._db.execute(
            "UPDATE given SET live = 0 WHERE asset = ? AND rule = ? AND tag = ? AND action = ?",
            (number, rule, tag, action),
        )

    def rules_given(self) -> list[tuple[str, str]]:
        """(tenant, rule) of all that was ever told."""
        sql = "SELECT DISTINCT tenant, rule FROM given JOIN assets ON assets.id = asset"
        return list(self._db.execute(sql))

    def take_back(self, row: Row) -> None:
        """Take up what was told before, where this is it."""
        told = _told(row)
        if told is not None:
            rule, tag, action, live = told
            self.give(self.id(row.tenant, row.subject), rule, tag, action, row.version, live=live)


def _told(row: Row) -> tuple[str, str, str, bool] | None:
    """(rule, tag, action, whether it holds) of a register that enrichment wrote; None for any other."""
    kind, _, rest = row.register.partition(SEPARATOR)
    origin = str(row.data.get("origin", ""))
    if kind == "tag" and row.data.get("origin_kind") == "rule" and origin.startswith(ORIGIN):
        return origin[len(ORIGIN) :], str(row.data["tag"]), "attach", row.type == ev.TAG_ATTACHED
    if kind == "field" and rest.startswith(f"{SUGGESTED}{SEPARATOR}"):
        tag = rest.partition(SEPARATOR)[2]
        given = (row.data.get("set") or {}).get(tag)
        rule = given.get("rule") if isinstance(given, dict) else row.data.get("rule")
        if isinstance(rule, str):
            return rule, tag, "suggest", isinstance(given, dict)
    return None


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(
        one if isinstance(one, str) else orjson.dumps(one).decode() for one in value if one is not None
    )
