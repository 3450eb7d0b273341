"""Rows of an incremental table, page by page in the order of its key, now or as they stood at a time."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder

from lily_api.lake.tables import Tables, literal, past_not_kept
from lily_common.errors import FieldError, InvalidInputError

#: The table's key, in its Delta configuration; columns that begin with `__` are Lily's own.
_KEY = "lily.key"
_VERSION, _DELETED = "__version", "__deleted"
#: A page ends after so many looks at the table, however many of the rows that they found were deleted ones.
_LOOKS = 4
_SPARE = 200
_DECIMAL = re.compile(r"decimal(?P<bits>128|256)\((?P<precision>\d+), (?P<scale>-?\d+)\)")
_PLAIN = {
    "bool": "Boolean",
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "int64": "Int64",
    "float": "Float32",
    "double": "Float64",
    "date32[day]": "Date32",
    "timestamp[us]": "Timestamp(Microsecond, None)",
    "timestamp[us, tz=UTC]": 'Timestamp(Microsecond, Some("UTC"))',
}

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RowPage:
    """Live rows, and the key after which the next page begins; None after the last."""

    rows: list[Row]
    after: tuple[Any, ...] | None


class RowReader:
    """Reads for one process; see `Tables` for errors."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._slots = asyncio.Semaphore(2)

    async def page(
        self,
        path: str,
        only: Mapping[str, str],
        *,
        after: Sequence[Any] | None,
        limit: int,
        at: datetime | None = None,
    ) -> RowPage | None:
        """At most `limit` rows whose columns hold what `only` says, after that key; None when there is no table.

        `after` holds the key's values as JSON. Raises InvalidInputError when the state of `at` cannot be told, or
        when `after` is no key of the table.
        """
        async with self._slots:
            return await asyncio.to_thread(self._page, path, only, after, limit, at)

    def _page(
        self,
        path: str,
        only: Mapping[str, str],
        after: Sequence[Any] | None,
        limit: int,
        at: datetime | None,
    ) -> RowPage | None:
        with self._tables.snapshot(path, at) as table:
            if table is None:
                return None
            if at is not None:
                _check_existed(table, at)
            look = _Look(table, only)
            rows: list[Row] = []
            for _ in range(_LOOKS):
                wanted = limit - len(rows)
                found, after, over = look.after(after, wanted)
                rows += found
                if over:
                    return RowPage(rows, None)
                if len(rows) >= limit:
                    break
            return RowPage(rows, tuple(after or ()))


class _Look:
    """Queries of one snapshot. The greatest version of a key counts, and it comes first."""

    def __init__(self, table: DeltaTable, only: Mapping[str, str]) -> None:
        self._query = QueryBuilder().register("held", table)
        schema = pa.schema(table.schema().to_arrow())
        self._key = table.metadata().configuration[_KEY].split(",")
        self._types = {name: str(schema.field(name).type) for name in self._key}
        columns = [name for name in schema.names if not name.startswith("__")]
        self._select = ", ".join(map(_quoted, [*columns, _VERSION, _DELETED]))
        self._only = [f"{_quoted(name)} = {literal(value)}" for name, value in only.items()]
        order = [f"{_quoted(name)} ASC NULLS FIRST" for name in self._key]
        self._order = ", ".join([*order, f"{_quoted(_VERSION)} DESC"])

    def after(self, key: Sequence[Any] | None, wanted: int) -> tuple[list[Row], tuple[Any, ...] | None, bool]:
        """Live rows, the last key that was looked at, and whether there is none after it."""
        count = 2 * wanted + _SPARE
        conditions = self._only + ([self._later(key)] if key else [])
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        sql = f"SELECT {self._select} FROM held {where}ORDER BY {self._order} LIMIT {count}"
        found = pa.table(self._query.execute(sql).read_all()).to_pylist(maps_as_pydicts="lossy")
        live: list[Row] = []
        last: tuple[Any, ...] | None = None
        for row in self._newest(found):
            if len(live) == wanted:
                return live, last, False
            last = tuple(_json(row[name]) for name in self._key)
            if not row[_DELETED]:
                live.append({name: _json(row[name]) for name in row if not name.startswith("__")})
        return live, last, len(found) < count

    def _newest(self, found: list[Row]) -> Iterator[Row]:
        for _key, rows in groupby(found, key=lambda row: [row[name] for name in self._key]):
            yield next(rows)

    def _later(self, key: Sequence[Any]) -> str:
        """The condition for keys after that one, in the order of the query."""
        if len(key) != len(self._key):
            raise _no_key()
        same: list[str] = []
        cases = []
        for name, value in zip(self._key, key, strict=True):
            column = _quoted(name)
            if value is None:
                cases.append([*same, f"{column} IS NOT NULL"])
                same.append(f"{column} IS NULL")
            else:
                constant = _constant(value, self._types[name])
                cases.append([*same, f"{column} > {constant}"])
                same.append(f"{column} = {constant}")
        return "(" + " OR ".join(f"({' AND '.join(case)})" for case in cases) + ")"


def _check_existed(table: DeltaTable, at: datetime) -> None:
    """For a time before the first commit that is kept, that commit is opened: its files are younger."""
    written = pa.table(table.get_add_actions(flatten=True))["modification_time"]
    newest = pc.max(written).as_py()  # in milliseconds
    if newest is not None and newest > at.timestamp() * 1000:
        raise past_not_kept("is before the table's first refresh, or before what is kept of it")


def _no_key() -> InvalidInputError:
    wrong = "not a cursor of this list"
    return InvalidInputError(wrong, [FieldError("query.cursor", wrong)])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _constant(value: Any, kind: str) -> str:
    """A key's value, as `_json` gave it, in SQL. Raises InvalidInputError when it is not of that type."""
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        target = f"Decimal{decimal['bits']}({decimal['precision']}, {decimal['scale']})"
    else:
        target = _PLAIN.get(kind, "Utf8")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        if target.startswith("Int"):
            if not -(2**63) <= int(text) < 2**63:
                raise _no_key()
        elif target.startswith(("Float", "Decimal")):
            float(text)
        elif target.startswith(("Date", "Timestamp")):
            datetime.fromisoformat(text)
    except ValueError:
        raise _no_key() from None
    return f"arrow_cast({literal(text)}, {literal(target)})"


def _json(value: Any) -> Any:
    """As JSON has it: decimals as text, times with their offset, bytes in base64."""
    match value:
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {str(name): _json(part) for name, part in value.items()}
        case list():
            return [_json(part) for part in value]
        case None | bool() | int() | str():
            return value
        case float():
            return value if value - value == 0 else str(value)
        case _:
            return str(value)
