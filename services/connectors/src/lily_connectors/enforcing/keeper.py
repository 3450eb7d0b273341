"""A PostgreSQL database kept in line with decisions: privileges revoked, views that mask, and all of it taken back.

One transaction a round, under a lock: readers see the database before or after it. What Lily found at first (baseline)
and what it made (applied) stand in the schema `lily_enforcement` of that database, so that drift is told from news and
everything can be undone, also by another Lily.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import LiteralString

import psycopg
from psycopg import sql

from lily_connectors.enforcing import catalog
from lily_connectors.enforcing.catalog import Connection
from lily_connectors.enforcing.wanted import WHOLE, Decide, Name, Reader, Table, View, wanted

STATE_SCHEMA = "lily_enforcement"
_LOCK: LiteralString = "SELECT pg_advisory_xact_lock(hashtext('lily_enforcement'))"
_STATE: tuple[LiteralString, ...] = (
    "CREATE SCHEMA IF NOT EXISTS lily_enforcement",
    """CREATE TABLE IF NOT EXISTS lily_enforcement.baseline (
        role text, schema text, relation text, columns text[] NOT NULL, PRIMARY KEY (role, schema, relation))""",
    """CREATE TABLE IF NOT EXISTS lily_enforcement.applied (
        role text, schema text, relation text, columns text[] NOT NULL, view_text text, view_made text,
        PRIMARY KEY (role, schema, relation))""",
)
_BASELINE: LiteralString = "SELECT role, schema, relation, columns FROM lily_enforcement.baseline"
_APPLIED: LiteralString = (
    "SELECT role, schema, relation, columns, view_text, view_made FROM lily_enforcement.applied"
)
_ADOPT: LiteralString = "INSERT INTO lily_enforcement.baseline VALUES (%s, %s, %s, %s)"
_RECORD: LiteralString = """
INSERT INTO lily_enforcement.applied VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (role, schema, relation) DO UPDATE
SET columns = excluded.columns, view_text = excluded.view_text, view_made = excluded.view_made
"""
_Key = tuple[str, Name]


@dataclass(frozen=True, slots=True)
class Scope:
    """What is kept: the tables of `schemas`, for `readers`; by `views` of the readers' own, or by columns' privileges.

    A reader's views stand in a schema of its own, called `<schema>_<role>`.
    """

    schemas: tuple[str, ...]
    readers: tuple[Reader, ...]
    views: bool

    @property
    def roles(self) -> list[str]:
        return [reader.role for reader in self.readers]


@dataclass
class Report:
    """What a round did: `changes` that policies and tags asked for, `drift` that somebody else had made and was put
    right, `problems` that are left, each a sentence."""

    changes: list[str] = field(default_factory=list)
    drift: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Applied:
    """What Lily left at its last round. `view_made` is the definition as PostgreSQL wrote it then."""

    columns: frozenset[str]
    view_text: str | None
    view_made: str | None


_NOTHING = _Applied(frozenset(), None, None)


async def keep(connection: Connection, scope: Scope, decide: Decide) -> Report:
    """Make the database as the decisions want it. Raises psycopg.Error when it cannot be worked with at all."""
    report = Report()
    async with connection.transaction():
        await connection.execute(_LOCK)
        for statement in _STATE:
            await connection.execute(statement)
        missing = await catalog.missing_roles(connection, scope.roles)
        report.problems += [f"there is no role {role}" for role in missing]
        readers = [reader for reader in scope.readers if reader.role not in missing]
        tables = await catalog.tables(connection, scope.schemas)
        granted = await catalog.grants(connection, scope.schemas, scope.roles)
        baseline = await _baseline(connection, tables, readers, granted)
        target = wanted(tables, readers, baseline, decide, views=scope.views)
        applied = await _applied(connection)
        views = await catalog.views(connection, _view_schemas(scope)) if scope.views else {}
        seen = await catalog.grants(connection, _view_schemas(scope), scope.roles) if scope.views else {}
        for key, columns in target.grants.items():
            before = applied.get(key, _NOTHING)
            view = target.views.get(key)
            made = before.view_made
            try:
                async with connection.transaction():
                    actual = granted.get(key, frozenset())
                    await _grant(connection, key, actual, columns)
                    if scope.views:
                        made = await _show(connection, key, before, view, views)
                        if view is not None and (key[0], _view_of(key)) not in seen:
                            await _open(connection, key)
            except psycopg.Error as refused:
                report.problems.append(f"{_about(key)}: {_line(refused)}")
                await _shut(connection, key, report)
                continue
            _tell(report, key, before, columns, granted, view, views, known=key in applied)
            text = view.text if view is not None else None
            await connection.execute(
                _RECORD, (key[0], key[1].schema, key[1].table, sorted(columns), text, made)
            )
        report.problems += await _leaks(connection, scope, target.grants)
    return report


async def restore(connection: Connection, scope: Scope) -> None:
    """Give the readers back what they had at first, and leave nothing behind. Raises psycopg.Error."""
    async with connection.transaction():
        await connection.execute(_LOCK)
        for statement in _STATE:
            await connection.execute(statement)
        granted = await catalog.grants(connection, scope.schemas, scope.roles)
        there = {table.name for table in await catalog.tables(connection, scope.schemas)}
        baseline = await _read_baseline(connection)
        for key, columns in baseline.items():
            if key[1] in there and key[0] in scope.roles:
                await _grant(connection, key, granted.get(key, frozenset()), columns)
        if scope.views:
            for schema in _view_schemas(scope):
                await connection.execute(
                    sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema))
                )
        await connection.execute("DROP SCHEMA lily_enforcement CASCADE")


async def _baseline(
    connection: Connection,
    tables: Iterable[Table],
    readers: Iterable[Reader],
    granted: Mapping[_Key, frozenset[str]],
) -> dict[_Key, frozenset[str]]:
    """What each reader had when its table was first seen; what is seen now for the first time is added."""
    held = await _read_baseline(connection)
    for table in tables:
        for reader in readers:
            key = (reader.role, table.name)
            if key not in held and (columns := granted.get(key)):
                held[key] = columns
                row = (reader.role, table.name.schema, table.name.table, sorted(columns))
                await connection.execute(_ADOPT, row)
    return held


async def _read_baseline(connection: Connection) -> dict[_Key, frozenset[str]]:
    rows = await (await connection.execute(_BASELINE)).fetchall()
    return {(role, Name(schema, table)): frozenset(columns) for role, schema, table, columns in rows}


async def _applied(connection: Connection) -> dict[_Key, _Applied]:
    rows = await (await connection.execute(_APPLIED)).fetchall()
    return {
        (role, Name(schema, table)): _Applied(frozenset(columns), text, made)
        for role, schema, table, columns, text, made in rows
    }


async def _grant(connection: Connection, key: _Key, actual: frozenset[str], columns: frozenset[str]) -> None:
    """From the privileges that the role has on the table to those that it is to have."""
    role, name = key
    if actual == columns:
        return
    revoke = sql.SQL("REVOKE SELECT {} ON {} FROM {}")
    grant = sql.SQL("GRANT SELECT {} ON {} TO {}")
    on, of = sql.Identifier(name.schema, name.table), sql.Identifier(role)
    if WHOLE in actual - columns:
        # Takes the columns' privileges with it.
        await connection.execute(revoke.format(sql.SQL(""), on, of))
        actual = frozenset()
    if gone := actual - columns:
        await connection.execute(revoke.format(_listed(gone), on, of))
    if new := columns - actual:
        await connection.execute(grant.format(sql.SQL("") if WHOLE in new else _listed(new), on, of))


async def _show(
    connection: Connection,
    key: _Key,
    before: _Applied,
    view: View | None,
    views: Mapping[Name, tuple[str, tuple[str, ...]]],
) -> str | None:
    """Make the reader's view; returns its definition as PostgreSQL writes it. None wanted: it goes."""
    place = _view_of(key)
    there = views.get(place)
    at = sql.Identifier(place.schema, place.table)
    if view is None:
        if there is not None:
            await connection.execute(sql.SQL("DROP VIEW {}").format(at))
        return None
    if there is not None and before.view_text == view.text and there[0] == before.view_made:
        return there[0]
    shown = tuple(f"{column} {kind}" for column, kind in view.columns.items())
    if there is not None and there[1] != shown:
        await connection.execute(sql.SQL("DROP VIEW {}").format(at))
    schema = sql.Identifier(place.schema)
    await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
    made = sql.SQL("CREATE OR REPLACE VIEW {} WITH (security_barrier) AS ").format(at)
    await connection.execute(made + sql.SQL(view.text))
    await _open(connection, key)
    return (await catalog.views(connection, [place.schema]))[place][0]


async def _open(connection: Connection, key: _Key) -> None:
    """Let the reader read its view."""
    place, of = _view_of(key), sql.Identifier(key[0])
    for statement, one in (
        ("GRANT USAGE ON SCHEMA {} TO {}", sql.Identifier(place.schema)),
        ("GRANT SELECT ON {} TO {}", sql.Identifier(place.schema, place.table)),
    ):
        await connection.execute(sql.SQL(statement).format(one, of))


async def _shut(connection: Connection, key: _Key, report: Report) -> None:
    """What could not be made as wanted shows nothing."""
    role, name = key
    of = sql.Identifier(role)
    objects = [sql.Identifier(name.schema, name.table)]
    place = _view_of(key)
    if place in await catalog.views(connection, [place.schema]):
        objects.append(sql.Identifier(place.schema, place.table))
    for one in objects:
        try:
            async with connection.transaction():
                await connection.execute(sql.SQL("REVOKE SELECT ON {} FROM {}").format(one, of))
        except psycopg.Error as refused:
            report.problems.append(f"{_about(key)}: cannot be shut: {_line(refused)}")


def _tell(
    report: Report,
    key: _Key,
    before: _Applied,
    columns: frozenset[str],
    granted: Mapping[_Key, frozenset[str]],
    view: View | None,
    views: Mapping[Name, tuple[str, tuple[str, ...]]],
    *,
    known: bool,
) -> None:
    """Say what was changed, and whether somebody else had changed it before."""
    actual = granted.get(key, frozenset())
    there = views.get(_view_of(key))
    if known and actual != before.columns:
        report.drift.append(f"{_about(key)}: could read {_named(actual)}, not {_named(before.columns)}")
    if known and before.view_text is not None and (there is None or there[0] != before.view_made):
        report.drift.append(f"{_about(key)}: the view was {'gone' if there is None else 'another'}")
    if columns != before.columns or not known:
        report.changes.append(f"{_about(key)}: may read {_named(columns)}")
    text = view.text if view is not None else None
    if text != before.view_text:
        report.changes.append(f"{_about(key)}: the view {'goes' if text is None else 'is ' + text}")


async def _leaks(connection: Connection, scope: Scope, grants: Mapping[_Key, frozenset[str]]) -> list[str]:
    """Columns that a reader can read all the same: as PUBLIC, as a member of another role, as their owner."""
    readable = await catalog.readable(connection, scope.schemas, scope.roles)
    left: dict[_Key, set[str]] = {}
    for role, name, column in readable:
        allowed = grants.get((role, name))
        if allowed is not None and WHOLE not in allowed and column not in allowed:
            left.setdefault((role, name), set()).add(column)
    return [
        f"{_about(key)}: can still read {_named(frozenset(columns))}, by PUBLIC or another role"
        for key, columns in sorted(left.items())
    ]


def _view_schemas(scope: Scope) -> list[str]:
    return [f"{schema}_{role}" for schema in scope.schemas for role in scope.roles]


def _view_of(key: _Key) -> Name:
    role, name = key
    return Name(f"{name.schema}_{role}", name.table)


def _listed(columns: Iterable[str]) -> sql.Composable:
    names: Sequence[sql.Composable] = [sql.Identifier(column) for column in sorted(columns)]
    return sql.SQL("({})").format(sql.SQL(", ").join(names))


def _about(key: _Key) -> str:
    return f"{key[0]} on {key[1]}"


def _named(columns: frozenset[str]) -> str:
    if not columns:
        return "nothing"
    return "all" if WHOLE in columns else ", ".join(sorted(columns))


def _line(error: psycopg.Error) -> str:
    return str(error).splitlines()[0][:300]
