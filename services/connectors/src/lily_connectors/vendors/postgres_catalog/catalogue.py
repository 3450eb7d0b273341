"""Reads the catalogue of one PostgreSQL database, row by row, so that a large one needs no memory.

Each row carries `mark`: the transaction ids (`xmin`) that last changed what it was read from. The same content under
another mark has been changed in between and back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import psycopg
from psycopg.rows import namedtuple_row

Kind = Literal["database", "schema", "table", "view", "column", "dependency"]


@dataclass(frozen=True, slots=True)
class Row:
    """One thing of the catalogue.

    `path` is (database, schema, table, column) as far as it goes; `detail` holds what is known of it besides, e.g.
    `data_type` of a column, `primary_key` of a table; of a dependency, `upstream`: the path of what a view reads.
    """

    kind: Kind
    path: tuple[str, ...]
    comment: str | None
    detail: dict[str, Any]
    mark: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Row:
        return cls(**{**fields, "path": tuple(fields["path"])})


_VISIBLE = """
n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
AND (cardinality(%(schemas)s::text[]) = 0 OR n.nspname = ANY(%(schemas)s)) AND n.nspname <> ALL(%(exclude)s)
"""
_RELATIONS = "c.relkind IN ('r', 'p', 'f', 'v', 'm') AND NOT c.relispartition"

_DATABASE = """
SELECT d.datname AS database, shobj_description(d.oid, 'pg_database') AS comment, d.xmin::text AS mark
FROM pg_database d WHERE d.datname = current_database()
"""
_SCHEMAS = f"""
SELECT n.nspname AS schema, o.description AS comment, concat_ws('.', n.xmin, o.xmin) AS mark
FROM pg_namespace n
LEFT JOIN pg_description o ON o.objoid = n.oid AND o.classoid = 'pg_namespace'::regclass AND o.objsubid = 0
WHERE {_VISIBLE} ORDER BY 1
"""
_TABLES = f"""
SELECT n.nspname AS schema, c.relname AS name, c.relkind::text AS relkind, o.description AS comment,
  (SELECT array_agg(a.attname::text ORDER BY k.place)
   FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, place), pg_attribute a
   WHERE i.indrelid = c.oid AND i.indisprimary AND a.attrelid = c.oid AND a.attnum = k.attnum) AS primary_key,
  concat_ws('.', c.xmin, o.xmin) AS mark
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_description o ON o.objoid = c.oid AND o.classoid = 'pg_class'::regclass AND o.objsubid = 0
WHERE {_RELATIONS} AND {_VISIBLE} ORDER BY 1, 2
"""
_COLUMNS = f"""
SELECT n.nspname AS schema, c.relname AS name, a.attname AS column_name, a.attnum AS ordinal,
  format_type(a.atttypid, a.atttypmod) AS data_type, NOT a.attnotnull AS nullable, o.description AS comment,
  concat_ws('.', a.xmin, o.xmin) AS mark
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_description o ON o.objoid = c.oid AND o.classoid = 'pg_class'::regclass AND o.objsubid = a.attnum
WHERE a.attnum > 0 AND NOT a.attisdropped AND {_RELATIONS} AND {_VISIBLE} ORDER BY 1, 2, 4
"""
_DEPENDENCIES = f"""
SELECT DISTINCT n.nspname AS schema, c.relname AS name, un.nspname AS up_schema, u.relname AS up_name,
  r.xmin::text AS mark
FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
JOIN pg_class u ON d.refclassid = 'pg_class'::regclass AND u.oid = d.refobjid AND u.oid <> c.oid
JOIN pg_namespace un ON un.oid = u.relnamespace
WHERE c.relkind IN ('v', 'm') AND u.relkind IN ('r', 'p', 'f', 'v', 'm') AND {_VISIBLE} ORDER BY 1, 2, 3, 4
"""
_COUNT = f"""
SELECT count(*) + count(DISTINCT c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE {_RELATIONS} AND {_VISIBLE}
"""
_VIEWS = frozenset({"v", "m"})


class Catalogue:
    """One connection's view of one database, in one transaction: what is read fits together."""

    def __init__(
        self, connection: psycopg.Connection[Any], schemas: Sequence[str] = (), exclude: Sequence[str] = ()
    ) -> None:
        self._connection = connection
        self._which = {"schemas": list(schemas), "exclude": list(exclude)}

    @property
    def namespace(self) -> str:
        """OpenLineage's namespace of the server, from the connection."""
        info = self._connection.info
        return f"postgres://{info.host or 'localhost'}:{info.port}"

    def estimate(self) -> int:
        """About how many rows there will be, for a progress bar."""
        counted = self._connection.execute(_COUNT, self._which).fetchone()
        return int(counted[0]) + 1 if counted else 1

    def rows(self) -> Iterator[Row]:
        """Everything: the database, its schemas, tables and views, columns, and what views read."""
        database = ""
        for row in self._query("database", _DATABASE):
            database = row.database
            yield Row("database", (database,), row.comment, {}, row.mark)
        for row in self._query("schemas", _SCHEMAS):
            yield Row("schema", (database, row.schema), row.comment, {}, row.mark)
        for row in self._query("tables", _TABLES):
            kind: Kind = "view" if row.relkind in _VIEWS else "table"
            detail = {"primary_key": row.primary_key or []} if kind == "table" else {}
            yield Row(kind, (database, row.schema, row.name), row.comment, detail, row.mark)
        for row in self._query("columns", _COLUMNS):
            path = (database, row.schema, row.name, row.column_name)
            detail = {"data_type": row.data_type, "nullable": row.nullable, "ordinal": row.ordinal}
            yield Row("column", path, row.comment, detail, row.mark)
        for row in self._query("dependencies", _DEPENDENCIES):
            upstream = [database, row.up_schema, row.up_name]
            yield Row("dependency", (database, row.schema, row.name), None, {"upstream": upstream}, row.mark)

    def _query(self, name: str, statement: str) -> Iterator[Any]:
        # A cursor of the server's: rows come as they are read.
        with self._connection.cursor(f"lily_{name}", row_factory=namedtuple_row) as cursor:
            cursor.itersize = 5_000
            cursor.execute(statement.encode(), self._which)
            yield from cursor
