"""What the privileges and views of a database have to be, for given decisions. Pure.

A *reader* is a role of the database. It never gets more than it had when Lily first saw the table (its *baseline*).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lily_common.policies import sql
from lily_common.policies.decide import Decision
from lily_common.policies.model import Who

#: Stands for the privilege on a whole table, its future columns included.
WHOLE = "*"


@dataclass(frozen=True, slots=True, order=True)
class Name:
    """A table's."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class Table:
    """`columns`: name -> type as `format_type` writes it, in the table's order."""

    name: Name
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reader:
    """A role of the database, and the groups that policies know it by."""

    role: str
    groups: tuple[str, ...] = ()

    @property
    def who(self) -> Who:
        return Who(user=self.role, groups=self.groups, roles=(self.role,))


@dataclass(frozen=True, slots=True)
class View:
    """One reader's view of one table. `text` is the SELECT; `columns` name -> type, as it shows them."""

    text: str
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """`grants`: (role, table) -> columns that may be read, or WHOLE. `views`: (role, table) -> the view."""

    grants: Mapping[tuple[str, Name], frozenset[str]]
    views: Mapping[tuple[str, Name], View]


#: (table, column or None, who) -> the decision on it
Decide = Callable[[Name, str | None, Who], Decision]


def wanted(
    tables: Sequence[Table],
    readers: Sequence[Reader],
    baseline: Mapping[tuple[str, Name], frozenset[str]],
    decide: Decide,
    *,
    views: bool,
) -> Wanted:
    """With `views` readers have a view of each table and nothing of the table; else columns of the table."""
    grants: dict[tuple[str, Name], frozenset[str]] = {}
    shown: dict[tuple[str, Name], View] = {}
    for table in tables:
        for reader in readers:
            key = (reader.role, table.name)
            had = baseline.get(key, frozenset())
            if not had:
                continue
            grants[key] = frozenset()
            of_table = decide(table.name, None, reader.who)
            if not of_table.allowed:
                continue
            readable = {
                column: kind for column, kind in table.columns.items() if WHOLE in had or column in had
            }
            of_columns = {column: decide(table.name, column, reader.who) for column in readable}
            if views:
                view = _view(table, readable, of_table, of_columns)
                if view is not None:
                    shown[key] = view
            else:
                grants[key] = _columns(table, had, of_table, of_columns)
    return Wanted(grants, shown)


def _columns(
    table: Table, had: frozenset[str], of_table: Decision, of_columns: Mapping[str, Decision]
) -> frozenset[str]:
    """What can be granted. A condition on rows cannot: nothing of the table is then."""
    if of_table.filters:
        return frozenset()
    plain = {column for column, one in of_columns.items() if one.allowed and one.mask is None}
    if WHOLE in had and plain == set(table.columns):
        return frozenset({WHOLE})
    return frozenset(plain)


def _view(
    table: Table,
    readable: Mapping[str, str],
    of_table: Decision,
    of_columns: Mapping[str, Decision],
) -> View | None:
    """The SELECT of what may be seen; None when that is no column."""
    picked, columns = [], {}
    for column, kind in readable.items():
        decision = of_columns[column]
        if not decision.allowed:
            continue
        columns[column] = kind
        name = quoted(column)
        if decision.mask is None:
            picked.append(name)
        else:
            picked.append(f"{sql.postgres(decision.mask, column, kind)} AS {name}")
    if not picked:
        return None
    text = f"SELECT {', '.join(picked)} FROM {quoted(table.name.schema)}.{quoted(table.name.table)}"
    if of_table.filters:
        text += " WHERE " + " AND ".join(f"({condition})" for condition in of_table.filters)
    return View(text, columns)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
