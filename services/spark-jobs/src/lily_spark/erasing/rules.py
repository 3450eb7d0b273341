"""What an erasure does to rows of the lake's tables: which go, and in which a text is replaced. Pure.

What a row is *about* (asset, source, id, register) decides whether it goes. A match in what it *says* is replaced by
`[erased]` where other assets' history needs the row: in events and registers. Requests go whole, as do rows of change
data and of tables made from them, which are somebody's or nobody's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pyarrow as pa

from lily_common.erasing.stoplist import Matcher
from lily_spark.tables import ASSETS, EVENTS, PAST, RAW

Row = dict[str, Any]
#: The row as it is to be; the very same object when nothing of it is erased, None when it goes.
Rule = Callable[[Row], Row | None]


def rule_of(path: str, matcher: Matcher, requests: frozenset[str] = frozenset()) -> Rule:
    """The rule for the table at `path`. `requests` are ids of requests that brought what is erased."""
    rules: dict[str, Rule] = {
        EVENTS.name: lambda row: event(row, matcher),
        RAW.name: lambda row: request(row, matcher, requests),
        ASSETS.name: lambda row: register(row, matcher),
        PAST.name: lambda row: register(row, matcher),
    }
    return rules.get(path, lambda row: other(row, matcher))


def event(row: Row, matcher: Matcher) -> Row | None:
    held = orjson.loads(row["event"])
    if about(held, matcher):
        return None
    cleaned = matcher.json_text(row["event"])
    return row if cleaned == row["event"] else row | {"event": cleaned}


def about(held: Mapping[str, Any], matcher: Matcher) -> bool:
    """Whether an accepted event is about something erased, and goes as a whole."""
    return matcher.key_of_event(held["type"], held["source"], held["id"], held["subject"], held["data"])


def register(row: Row, matcher: Matcher) -> Row | None:
    names = (row["subject"], row["source"], row["event_id"])
    if matcher.everything or any(map(matcher.text, names)) or matcher.register(row["register"]):
        return None
    cleaned = matcher.json_text(row["data"])
    return row if cleaned == row["data"] else row | {"data": cleaned}


def request(row: Row, matcher: Matcher, requests: frozenset[str]) -> Row | None:
    held = (row["path"], *(value for _name, value in row["headers"] or ()))
    if row["request_id"] in requests or matcher.body(row["body"] or b"") or any(map(matcher.text, held)):
        return None
    return row


def other(row: Row, matcher: Matcher) -> Row | None:
    return None if matcher.everything or any(_holds(value, matcher) for value in row.values()) else row


def _holds(value: Any, matcher: Matcher) -> bool:
    if isinstance(value, str) and value[:1] in "{[" and value:
        return matcher.text(value) or matcher.json_text(value) != value
    if isinstance(value, list | tuple | dict):
        parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value
        return any(_holds(part, matcher) for part in parts)
    return isinstance(value, str) and matcher.text(value)


def cleaned(rows: pa.RecordBatch, rule: Rule, tenant: str | None) -> tuple[pa.RecordBatch, int]:
    """(the rows that stay, how many went or were changed). With `tenant`, rows of others stay as they are."""
    held = rows.to_pylist()
    kept: list[int] = []
    changed: dict[int, Row] = {}
    for number, row in enumerate(held):
        if tenant is not None and row.get("tenant") != tenant:
            kept.append(number)
            continue
        after = rule(row)
        if after is not None:
            kept.append(number)
            if after is not row:
                changed[number] = after
    touched = len(held) - len(kept) + len(changed)
    if not touched:
        return rows, 0
    for name in {name for number, row in changed.items() for name in row if row[name] != held[number][name]}:
        place = rows.schema.get_field_index(name)
        values = [changed.get(number, row)[name] for number, row in enumerate(held)]
        rows = rows.set_column(
            place, rows.schema.field(place), pa.array(values, rows.schema.field(place).type)
        )
    return rows.take(pa.array(kept, pa.int64())), touched
