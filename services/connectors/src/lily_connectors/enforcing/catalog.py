"""What a PostgreSQL database says of its tables, privileges and views."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from lily_connectors.enforcing.wanted import WHOLE, Name, Table

Connection = AsyncConnection[TupleRow]

_TABLES: LiteralString = """
SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname = ANY(%s::text[]) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
ORDER BY n.nspname, c.relname, a.attnum
"""
# Grants to the role itself; what it has by way of others is told apart (`_EFFECTIVE`).
_GRANTS: LiteralString = """
SELECT r.rolname, n.nspname, c.relname, g.attname
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT NULL AS attname, e.grantee, e.privilege_type FROM aclexplode(c.relacl) e
    UNION ALL
    SELECT a.attname, e.grantee, e.privilege_type
    FROM pg_attribute a CROSS JOIN LATERAL aclexplode(a.attacl) e
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
) g
JOIN pg_roles r ON r.oid = g.grantee
WHERE n.nspname = ANY(%s::text[]) AND r.rolname = ANY(%s::text[]) AND g.privilege_type = 'SELECT'
"""
_EFFECTIVE: LiteralString = """
SELECT r.rolname, n.nspname, c.relname, a.attname
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
CROSS JOIN pg_roles r
WHERE n.nspname = ANY(%s::text[]) AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND r.rolname = ANY(%s::text[])
  AND has_column_privilege(r.oid, c.oid, a.attnum, 'SELECT')
"""
_VIEWS: LiteralString = """
SELECT n.nspname, c.relname, pg_get_viewdef(c.oid),
       array_agg(a.attname::text || ' ' || format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname = ANY(%s::text[]) AND c.relkind = 'v'
GROUP BY n.nspname, c.relname, c.oid
"""
_MISSING_ROLES: LiteralString = (
    "SELECT r FROM unnest(%s::text[]) r WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r)"
)


async def tables(connection: Connection, schemas: Sequence[str]) -> list[Table]:
    """The tables and views of these schemas that have columns."""
    found: defaultdict[Name, dict[str, str]] = defaultdict(dict)
    for schema, table, column, kind in await _rows(connection, _TABLES, list(schemas)):
        found[Name(schema, table)][column] = kind
    return [Table(name, columns) for name, columns in found.items()]


async def grants(
    connection: Connection, schemas: Sequence[str], roles: Sequence[str]
) -> dict[tuple[str, Name], frozenset[str]]:
    """(role, table) -> columns that the role itself was granted to read, or WHOLE."""
    found: defaultdict[tuple[str, Name], set[str]] = defaultdict(set)
    for role, schema, table, column in await _rows(connection, _GRANTS, list(schemas), list(roles)):
        found[role, Name(schema, table)].add(WHOLE if column is None else column)
    return {key: frozenset(columns) for key, columns in found.items()}


async def readable(
    connection: Connection, schemas: Sequence[str], roles: Sequence[str]
) -> set[tuple[str, Name, str]]:
    """(role, table, column) of all that the roles can read, by whatever way."""
    rows = await _rows(connection, _EFFECTIVE, list(schemas), list(roles))
    return {(role, Name(schema, table), column) for role, schema, table, column in rows}


async def views(connection: Connection, schemas: Sequence[str]) -> dict[Name, tuple[str, tuple[str, ...]]]:
    """View -> (its definition as PostgreSQL writes it, its columns as `name type`)."""
    rows = await _rows(connection, _VIEWS, list(schemas))
    return {Name(schema, view): (text, tuple(columns)) for schema, view, text, columns in rows}


async def missing_roles(connection: Connection, roles: Sequence[str]) -> list[str]:
    return [row[0] for row in await _rows(connection, _MISSING_ROLES, list(roles))]


async def _rows(connection: Connection, query: LiteralString, *values: list[str]) -> list[TupleRow]:
    cursor = await connection.execute(query, values)
    return await cursor.fetchall()
