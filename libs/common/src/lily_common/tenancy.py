"""Proof that queries are scoped: sessions that refuse a statement on a tenant's table without its tenant.

`lily_common.db.tenant_scope` writes the restriction; the sessions made here check at execution that it is there. A
statement that has to look across tenants (finding a key by its prefix) says so, and why, with `across_tenants`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import BinaryExpression, BooleanClauseList, Column, Join, Table, TextClause, event
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import ORMExecuteState, Session
from sqlalchemy.sql import Delete, Executable, Select, Update, operators, visitors
from sqlalchemy.sql.elements import ClauseElement, ColumnElement, Grouping
from sqlalchemy.sql.selectable import Alias, FromClause

from lily_common.db import Base, TenantOwned

_OPTION = "lily_across_tenants"
Statement = TypeVar("Statement", bound=Executable)


class UnscopedQueryError(RuntimeError):
    """A statement reads or writes a tenant's table without saying whose rows: a defect, never an input error."""


def across_tenants(statement: Statement, why: str) -> Statement:
    """Exempt one statement; `why` is for the reader."""
    return statement.execution_options(**{_OPTION: why})


class GuardedSession(Session):
    """A session that raises UnscopedQueryError on an unscoped statement."""


def guarded_sessions(engine: AsyncEngine) -> async_sessionmaker[AsyncSession]:
    return async_sessionmaker(engine, expire_on_commit=False, sync_session_class=GuardedSession)


def owned_tables() -> frozenset[str]:
    """Names of the tables whose rows belong to one tenant."""
    return _owned_tables(len(Base.registry.mappers))


@cache
def _owned_tables(_mappers: int) -> frozenset[str]:
    return frozenset(
        str(mapper.local_table.description)
        for mapper in Base.registry.mappers
        if issubclass(mapper.class_, TenantOwned)
    )


@event.listens_for(GuardedSession, "do_orm_execute")
def _check(state: ORMExecuteState) -> None:
    # A refresh of a row that a scoped statement loaded goes by its primary key.
    if state.is_column_load or state.is_relationship_load or _OPTION in state.execution_options:
        return
    check(state.statement)


def check(statement: Any) -> None:
    """Raise UnscopedQueryError unless each tenant's table in `statement` is bound to a tenant."""
    if isinstance(statement, TextClause):
        words = set(statement.text.replace('"', " ").replace(",", " ").split())
        if held := words & owned_tables():
            raise UnscopedQueryError(
                f"textual SQL on {sorted(held)}: write it with SQLAlchemy and tenant_scope"
            )
        return
    for part in visitors.iterate(statement):
        if isinstance(part, Select | Update | Delete):
            _check_part(part)


def _check_part(part: Select[Any] | Update | Delete) -> None:
    froms: list[Any] = list(part.get_final_froms()) if isinstance(part, Select) else [part.table]
    tables = {name for clause in froms for name in _tables(clause)} & owned_tables()
    if not tables:
        return
    conditions: list[Any] = [part.whereclause] if part.whereclause is not None else []
    conditions += [on for clause in froms for on in _on_clauses(clause)]
    scoped = {name for condition in conditions for name in _tenant_equalities(condition)}
    if missing := tables - scoped:
        raise UnscopedQueryError(f"no tenant condition on {sorted(missing)}: use tenant_scope")


def _tables(clause: FromClause) -> Iterator[str]:
    if isinstance(clause, Join):
        yield from _tables(clause.left)
        yield from _tables(clause.right)
    elif isinstance(clause, Alias):
        yield from _tables(clause.element)
    elif isinstance(clause, Table):
        yield clause.name


def _on_clauses(clause: Any) -> Iterator[ClauseElement]:
    if isinstance(clause, Join):
        if clause.onclause is not None:
            yield clause.onclause
        yield from _on_clauses(clause.left)
        yield from _on_clauses(clause.right)


def _tenant_equalities(condition: Any) -> Iterator[str]:
    """Names of tables whose `tenant` column is compared for equality in a condition that must hold (AND only)."""
    if isinstance(condition, Grouping):
        yield from _tenant_equalities(condition.element)
    elif isinstance(condition, BooleanClauseList) and condition.operator is operators.and_:
        for clause in condition.clauses:
            yield from _tenant_equalities(clause)
    elif isinstance(condition, BinaryExpression) and condition.operator is operators.eq:
        sides: list[ColumnElement[Any]] = [condition.left, condition.right]
        for side in sides:
            if isinstance(side, Column) and side.name == "tenant" and side.table is not None:
                yield from _tables(side.table)
