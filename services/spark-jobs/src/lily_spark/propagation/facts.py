"""What is known of the graph, in an index on the local disk: assets, edges, tags, and how far each cause has reached.

The index is made of the registers of silver.assets, by the rule of `lily_common.state`: of each register the greatest
version, and a deletion hides what is older. It can be made anew from the lake at any time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from lily_common import events as ev
from lily_common.state import DELETED, SEPARATOR, Register, patched_value
from lily_spark.propagation.reach import Reached

_CORE = "aspect|core"
_FIELD = "field|core|"
_PROPERTIES = "properties"
_LOOKED_UP = 200_000
#: Core fields that tell where an asset stands.
_PLACE = ("asset_type", "parent")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS assets(
  id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL,
  grave TEXT NOT NULL DEFAULT '', newest TEXT NOT NULL DEFAULT '', asset_type TEXT, parent INTEGER,
  UNIQUE(tenant, name));
CREATE INDEX IF NOT EXISTS children ON assets(parent) WHERE parent IS NOT NULL;
CREATE TABLE IF NOT EXISTS fields(
  asset INTEGER, name TEXT, patch INTEGER, version TEXT NOT NULL, value TEXT,
  PRIMARY KEY(asset, name, patch)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS edges(
  down INTEGER, up INTEGER, via TEXT, version TEXT NOT NULL, is_column INTEGER NOT NULL, live INTEGER NOT NULL,
  PRIMARY KEY(down, up, via)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS downstream ON edges(up, down);
CREATE TABLE IF NOT EXISTS tags(
  asset INTEGER, tag TEXT, origin TEXT, version TEXT NOT NULL, live INTEGER NOT NULL,
  PRIMARY KEY(asset, tag, origin)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tagged ON tags(tag, asset);
CREATE TABLE IF NOT EXISTS owned(
  asset INTEGER, property TEXT, value TEXT NOT NULL, PRIMARY KEY(asset, property)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS owners ON owned(property, asset);
CREATE TABLE IF NOT EXISTS causes(
  id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, rule TEXT NOT NULL, what TEXT NOT NULL, origin INTEGER NOT NULL,
  UNIQUE(tenant, rule, what, origin));
CREATE INDEX IF NOT EXISTS origins ON causes(origin);
CREATE TABLE IF NOT EXISTS reached(
  cause INTEGER, asset INTEGER, origin INTEGER, depth INTEGER, before INTEGER, version TEXT NOT NULL,
  live INTEGER NOT NULL, told TEXT NOT NULL, PRIMARY KEY(cause, asset)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS reaching ON reached(asset, cause) WHERE live;
CREATE INDEX IF NOT EXISTS after ON reached(cause, before) WHERE live;
CREATE INDEX IF NOT EXISTS reached_from ON reached(cause, origin) WHERE live AND depth;
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A register of silver.assets: whose, which, and what was written into it by which event."""

    tenant: str
    subject: str
    register: str
    type: str
    version: str
    data: Mapping[str, Any]

    @property
    def is_derived(self) -> bool:
        """Whether propagation itself told it: that is never what it goes by."""
        return self.data.get("origin_kind") == "propagated"


#: In place of an asset.
NOBODY = 0


@dataclass(frozen=True, slots=True)
class Cause:
    """What a rule carries, and from where: a tag from one origin, or a property from whoever has one of its own."""

    id: int
    tenant: str
    rule: str
    what: str
    origin: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an asset stands for a cause, the version that says so ("" where nothing was told), the value told."""

    reached: Reached | None
    version: str = ""
    told: str = ""


NOWHERE = Standing(None)


@dataclass(frozen=True, slots=True)
class Asset:
    """What a rule asks of an asset. `newest` is the greatest version of its own registers."""

    id: int
    tenant: str
    name: str
    grave: str
    newest: str
    asset_type: str | None
    parent: int | None

    @property
    def alive(self) -> bool:
        """Not deleted; one of which nothing is known but its name may well be there."""
        return not self.grave or self.newest > self.grave


class Facts:
    """The index at `path` (a file, or ":memory:"). One thread at a time.

    `properties` are those that a new index knows of; one that is there keeps to its own.
    """

    def __init__(self, path: Path | str, properties: frozenset[str] = frozenset()) -> None:
        self._db = sqlite3.connect(str(path), isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA cache_size = -65536")
        self._db.executescript(_SCHEMA)
        if (noted := self.noted(_PROPERTIES)) is None:
            self.note(_PROPERTIES, noted := "|".join(sorted(properties)))
        self.properties = frozenset(filter(None, noted.split("|")))
        self._assets: dict[int, Asset] = {}
        self._ids: dict[tuple[str, str], int] = {}

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self, *, keep: bool = True) -> Iterator[None]:
        """All that is written inside, or nothing of it; with `keep` false nothing either way."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._roll_back()
            raise
        if keep:
            self._db.execute("COMMIT")
        else:
            self._roll_back()

    def _roll_back(self) -> None:
        self._db.execute("ROLLBACK")
        self._assets.clear()
        self._ids.clear()

    def note(self, name: str, value: str | int) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def noted(self, name: str) -> Any | None:
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def notes(self, prefix: str) -> list[tuple[str, Any]]:
        """(name, value) of all notes whose name begins so."""
        sql = "SELECT name, value FROM meta WHERE substr(name, 1, ?) = ?"
        return list(self._db.execute(sql, (len(prefix), prefix)))

    # --- what came ----------------------------------------------------------------------------------------------------

    def take(self, row: Row) -> set[int]:
        """Take in one register; returns the assets at which the graph, or what travels on it, may now be another."""
        kind, _, rest = row.register.partition(SEPARATOR)
        if row.is_derived:
            return set()
        asset = self.asset(self.id(row.tenant, row.subject))
        if row.register == DELETED:
            return self._delete(asset, row.version)
        dirty: set[int] = set()
        # What a rule gave says nothing of whether the asset itself is there.
        if row.version > asset.newest and row.data.get("origin_kind") != "rule":
            self._db.execute("UPDATE assets SET newest = ? WHERE id = ?", (row.version, asset.id))
            was_alive = asset.alive
            asset = self._forget(asset.id)
            if asset.alive != was_alive:
                dirty |= self._around(asset)
        if kind == "tag":
            return dirty | self._tag(asset, rest, row)
        if kind == "edge":
            return dirty | self._edge(asset, row)
        if row.register == _CORE or row.register.startswith(_FIELD):
            return dirty | self._core(asset, row)
        return dirty

    def _delete(self, asset: Asset, version: str) -> set[int]:
        if version <= asset.grave:
            return set()
        before = self._around(asset)
        self._db.execute("UPDATE assets SET grave = ? WHERE id = ?", (version, asset.id))
        self._forget(asset.id)
        return before | self._place(asset.id) | self._around(self.asset(asset.id))

    def _tag(self, asset: Asset, rest: str, row: Row) -> set[int]:
        tag, _, origin = rest.partition(SEPARATOR)
        changed = self._db.execute(
            "INSERT INTO tags VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET version = excluded.version, "
            "live = excluded.live WHERE excluded.version > version",
            (asset.id, tag, origin, row.version, row.type == ev.TAG_ATTACHED),
        ).rowcount
        return {asset.id} if changed else set()

    def _edge(self, asset: Asset, row: Row) -> set[int]:
        up = self.id(row.tenant, str(row.data["upstream"]))
        is_column = row.data.get("kind") == "column"
        changed = self._db.execute(
            "INSERT INTO edges VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET version = excluded.version, "
            "is_column = excluded.is_column, live = excluded.live WHERE excluded.version > version",
            (asset.id, up, row.data.get("via") or "", row.version, is_column, row.type == ev.EDGE_ADDED),
        ).rowcount
        if not changed:
            return set()
        # Lineage between columns may take the place of that of their tables.
        return {asset.id} | ({asset.parent} if asset.parent is not None else set())

    def _core(self, asset: Asset, row: Row) -> set[int]:
        wanted = {*_PLACE, *self.properties, _PROPERTIES}
        if row.register == _CORE:
            values, patch = {name: row.data.get(name) for name in wanted}, False
        else:
            name = row.register[len(_FIELD) :]
            values, patch = {name: patched_value(Register(row.type, row.version, row.data), name)}, True
            if name not in wanted:
                return set()
        if isinstance(given := values.get(_PROPERTIES), dict):
            values[_PROPERTIES] = {name: value for name, value in given.items() if name in self.properties}
        for name, value in values.items():
            self._db.execute(
                "INSERT INTO fields VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET version = excluded.version, "
                "value = excluded.value WHERE excluded.version > version",
                (asset.id, name, patch, row.version, orjson.dumps(value).decode()),
            )
        return self._place(asset.id)

    def _place(self, number: int) -> set[int]:
        """Where the asset stands by now, and what it has of its own; returns what is dirty by it."""
        asset = self.asset(number)
        visible = self._visible(asset)
        kind, parent_name = visible.get("asset_type"), visible.get("parent")
        parent = self.id(asset.tenant, parent_name) if isinstance(parent_name, str) and parent_name else None
        dirty: set[int] = set()
        if (kind, parent) != (asset.asset_type, asset.parent):
            dirty |= self._around(asset)
            self._db.execute(
                "UPDATE assets SET asset_type = ?, parent = ? WHERE id = ?",
                (kind if isinstance(kind, str) else None, parent, number),
            )
            dirty |= self._around(self._forget(number))
        return dirty | self._owned(number, visible)

    def _owned(self, number: int, visible: Mapping[str, Any]) -> set[int]:
        before = dict(self._db.execute("SELECT property, value FROM owned WHERE asset = ?", (number,)))
        now = {
            name: orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
            for name, value in visible.items()
            if name not in _PLACE and value not in (None, [], {}, "")
        }
        if before == now:
            return set()
        self._db.execute("DELETE FROM owned WHERE asset = ?", (number,))
        self._db.executemany("INSERT INTO owned VALUES (?, ?, ?)", [(number, *item) for item in now.items()])
        return {number}

    def _visible(self, asset: Asset) -> dict[str, Any]:
        """The asset's own fields: of a field the patch when it is newer than the upsert, and nothing that is deleted."""
        found: dict[str, tuple[str, Any]] = {}
        rows = self._db.execute("SELECT name, version, value FROM fields WHERE asset = ?", (asset.id,))
        for name, version, value in rows:
            if version > asset.grave and version > found.get(name, ("",))[0]:
                found[name] = (version, orjson.loads(value))
        visible = {name: value for name, (_version, value) in found.items()}
        own = visible.pop(_PROPERTIES, None)
        given = {name: value for name, value in visible.items() if value is not None}
        return (own if isinstance(own, dict) else {}) | given

    def _around(self, asset: Asset) -> set[int]:
        """The asset, and the tables for which it may count that there is lineage between their columns."""
        dirty = {asset.id}
        if asset.parent is not None:
            dirty.add(asset.parent)
        rows = self._db.execute(
            "SELECT assets.parent FROM edges JOIN assets ON assets.id = edges.down WHERE edges.up = ? AND is_column",
            (asset.id,),
        )
        return dirty | {parent for (parent,) in rows if parent is not None}

    # --- what is known ------------------------------------------------------------------------------------------------

    def id(self, tenant: str, name: str) -> int:
        """The asset's number, given when it is first named."""
        known = self._ids.get((tenant, name))
        if known is not None:
            return known
        found = self._db.execute(
            "SELECT id FROM assets WHERE tenant = ? AND name = ?", (tenant, name)
        ).fetchone()
        if found is None:
            found = self._db.execute(
                "INSERT INTO assets(tenant, name) VALUES (?, ?) RETURNING id", (tenant, name)
            ).fetchone()
        self._ids[tenant, name] = number = int(found[0])
        return number

    def asset(self, number: int) -> Asset:
        known = self._assets.get(number)
        if known is None:
            row = self._db.execute(
                "SELECT id, tenant, name, grave, newest, asset_type, parent FROM assets WHERE id = ?",
                (number,),
            ).fetchone()
            known = self._assets[number] = Asset(*row)
        return known

    def trim(self) -> None:
        """Forget what was looked up, when that is much: between rounds."""
        if len(self._assets) + len(self._ids) > _LOOKED_UP:
            self._assets.clear()
            self._ids.clear()

    def _forget(self, number: int) -> Asset:
        self._assets.pop(number, None)
        return self.asset(number)

    def own_tags(self, number: int) -> set[str]:
        """Tags of the asset that did not come by propagation, of any origin."""
        rows = self._db.execute(
            "SELECT DISTINCT tag FROM tags WHERE asset = ? AND live AND version > ?",
            (number, self.asset(number).grave),
        )
        return {tag for (tag,) in rows}

    def tagged(self, tenant: str) -> Iterator[tuple[int, str]]:
        """Every asset of the tenant with each of its own tags."""
        rows = self._db.execute(
            "SELECT DISTINCT asset, tag FROM tags JOIN assets ON assets.id = asset "
            "WHERE tenant = ? AND live AND version > grave",
            (tenant,),
        ).fetchall()
        yield from rows

    def owning(self, tenant: str, name: str) -> list[int]:
        """Assets of the tenant with a value of their own for the property."""
        rows = self._db.execute(
            "SELECT asset FROM owned JOIN assets ON assets.id = asset WHERE property = ? AND tenant = ?",
            (name, tenant),
        )
        return [asset for (asset,) in rows]

    def value(self, number: int, name: str) -> Any | None:
        """The asset's own value of the property, or None."""
        row = self._db.execute(
            "SELECT value FROM owned WHERE asset = ? AND property = ?", (number, name)
        ).fetchone()
        return None if row is None else orjson.loads(row[0])

    def into(self, number: int) -> list[tuple[int, bool]]:
        """(upstream, whether it is lineage between columns) of the asset's edges."""
        rows = self._db.execute(
            "SELECT DISTINCT up, is_column FROM edges WHERE down = ? AND live AND version > ?",
            (number, self.asset(number).grave),
        )
        return [(up, bool(is_column)) for up, is_column in rows]

    def out(self, number: int) -> list[tuple[int, bool]]:
        """(downstream, whether it is lineage between columns) of the edges that begin here."""
        rows = self._db.execute(
            "SELECT DISTINCT down, is_column FROM edges JOIN assets ON assets.id = down "
            "WHERE up = ? AND live AND version > grave",
            (number,),
        )
        return [(down, bool(is_column)) for down, is_column in rows]

    def children(self, number: int) -> list[int]:
        return [child for (child,) in self._db.execute("SELECT id FROM assets WHERE parent = ?", (number,))]

    def joined_by_columns(self, up: int, down: int) -> bool:
        """Whether there is lineage from a column of one to a column of the other."""
        found = self._db.execute(
            "SELECT 1 FROM assets below JOIN edges ON edges.down = below.id AND is_column AND live "
            "AND edges.version > below.grave JOIN assets above ON above.id = edges.up AND above.parent = ? "
            "WHERE below.parent = ? LIMIT 1",
            (up, down),
        ).fetchone()
        return found is not None

    # --- how far causes have reached ----------------------------------------------------------------------------------

    def cause(self, tenant: str, rule: str, what: str, origin: int) -> int:
        """The cause's number, given when it is first asked for. `origin` is NOBODY where many sources share one cause."""
        key = (tenant, rule, what, origin)
        sql = "SELECT id FROM causes WHERE tenant = ? AND rule = ? AND what = ? AND origin = ?"
        found = self._db.execute(sql, key).fetchone()
        if found is None:
            sql = "INSERT INTO causes(tenant, rule, what, origin) VALUES (?, ?, ?, ?) RETURNING id"
            found = self._db.execute(sql, key).fetchone()
        return int(found[0])

    def causes_of(self, tenant: str, rule: str) -> list[Cause]:
        sql = "SELECT id, tenant, rule, what, origin FROM causes WHERE tenant = ? AND rule = ?"
        return [Cause(*row) for row in self._db.execute(sql, (tenant, rule))]

    def rules_held(self) -> list[tuple[str, str]]:
        """(tenant, rule) of every cause that is known."""
        return list(self._db.execute("SELECT DISTINCT tenant, rule FROM causes"))

    def causes_at(self, number: int) -> list[Cause]:
        """Causes that reach the asset or begin at it."""
        sql = (
            "SELECT id, tenant, rule, what, causes.origin FROM reached JOIN causes ON id = cause WHERE asset = ? AND live "
            "UNION SELECT id, tenant, rule, what, origin FROM causes WHERE origin = ?"
        )
        return [Cause(*row) for row in self._db.execute(sql, (number, number))]

    def reached(self, cause: int, number: int) -> Standing:
        """Where the asset stands for the cause, and what was last told of it."""
        sql = "SELECT origin, depth, before, version, live, told FROM reached WHERE cause = ? AND asset = ?"
        row = self._db.execute(sql, (cause, number)).fetchone()
        if row is None:
            return NOWHERE
        origin, depth, before, version, live, told = row
        return Standing(Reached(origin, depth, before) if live else None, version, told)

    def reaching(self, cause: int, origin: int | None = None) -> list[int]:
        """Assets that the cause reaches, sources included; of `origin` only those that have it from there."""
        if origin is None:
            rows = self._db.execute("SELECT asset FROM reached WHERE cause = ? AND live", (cause,))
        else:
            sql = "SELECT asset FROM reached INDEXED BY reached_from WHERE cause = ? AND origin = ? AND live AND depth"
            rows = self._db.execute(sql, (cause, origin))
        return [asset for (asset,) in rows]

    def read_back(self, cause: int) -> list[int]:
        """Assets of which something was told that the index itself does not stand for."""
        rows = self._db.execute(
            "SELECT asset FROM reached WHERE cause = ? AND told >= '?' AND told < '@'", (cause,)
        )
        return [asset for (asset,) in rows]

    def after(self, cause: int, number: int) -> list[int]:
        """Assets that the cause reaches by way of this one."""
        # Left to itself, SQLite walks through all that the cause reaches, for each asset of a closure.
        sql = "SELECT asset FROM reached INDEXED BY after WHERE cause = ? AND before = ? AND live AND depth"
        return [asset for (asset,) in self._db.execute(sql, (cause, number))]

    def keep(self, cause: int, number: int, standing: Standing) -> None:
        """Note where the asset stands by now."""
        reached = standing.reached
        held = (reached.origin, reached.depth, reached.before) if reached else (NOBODY, 0, NOBODY)
        self._db.execute(
            "INSERT OR REPLACE INTO reached VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (cause, number, *held, standing.version, reached is not None, standing.told),
        )
