"""Printing: tables for people, JSON for programs. Results go to stdout, all else to stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

#: Columns that a narrow terminal must not break: people copy and compare them.
_WHOLE = frozenset({"ID", "STATUS", "TIME", "CREATED", "ACCEPTED", "MS", "SINK", "KIND"})
Row = Mapping[str, Any]
Column = tuple[str, str | Callable[[Row], Any]]

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def out() -> Console:
    """Standard output; wide where there is no terminal to be narrow."""
    return Console(highlight=False, width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160)


def err() -> Console:
    return Console(stderr=True, highlight=False)


def say(message: str) -> None:
    """A line about what happened, for people."""
    err().print(escape(message), soft_wrap=True)


def fail_line(message: str) -> None:
    err().print(f"[red]error:[/red] {escape(message)}", soft_wrap=True)


def print_json(value: Any) -> None:
    """Pretty for a terminal, one line for a pipe."""
    text = json.dumps(value, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False)
    sys.stdout.write(text + "\n")


def cell(value: Any) -> str:
    """A value as a table shows it."""
    if value in (None, "", [], {}):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and not any(isinstance(item, (list, dict)) for item in value):
        return escape(", ".join(map(str, value)))
    if isinstance(value, (list, dict)):
        return escape(json.dumps(value, ensure_ascii=False))
    return escape(short_time(str(value)))


def short_time(text: str) -> str:
    """`2026-01-15T18:10:00.123456Z` as `2026-01-15 18:10:00.123`; anything else unchanged."""
    if len(text) < 20 or text[4:5] != "-" or text[10:11] != "T":
        return text
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment.strftime("%Y-%m-%d %H:%M:%S") + f".{moment.microsecond // 1000:03d}"


def table(rows: Iterable[Row], columns: Iterable[Column], *, title: str | None = None) -> Table:
    """A rich table. A column is (heading, field name or function of the row)."""
    named = list(columns)
    shown = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for heading, _ in named:
        shown.add_column(heading, overflow="fold", no_wrap=heading in _WHOLE)
    for row in rows:
        shown.add_row(*(cell(row.get(get) if isinstance(get, str) else get(row)) for _, get in named))
    return shown


def print_rows(rows: Iterable[Row], columns: Iterable[Column], *, as_json: bool, empty: str = "none") -> None:
    """A list, as a table or as a JSON array."""
    listed = list(rows)
    if as_json:
        print_json(listed)
    elif not listed:
        say(empty)
    else:
        out().print(table(listed, columns))


def print_fields(record: Row, *, as_json: bool, title: str | None = None) -> None:
    """One record, a line per field, or as a JSON object."""
    if as_json:
        print_json(record)
        return
    shown = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    shown.add_column(style="bold")
    shown.add_column(overflow="fold")
    for name, value in record.items():
        shown.add_row(escape(name), cell(value))
    out().print(shown)
