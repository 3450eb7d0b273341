"""How assets, lineage, history and deliveries look in a terminal. Pure: API answers in, rich renderables out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from lily_cli.output import Column, Row, cell, table

ASSET_COLUMNS: list[Column] = [
    ("QUALIFIED NAME", "qualified_name"),
    ("TYPE", "asset_type"),
    ("NAME", "name"),
    ("TAGS", "tags"),
]
INCIDENT_COLUMNS: list[Column] = [
    ("ID", "incident_id"),
    ("OPEN", "open"),
    ("STATUS", "status"),
    ("SEVERITY", "severity"),
    ("TITLE", "title"),
    ("UPDATED", "updated_at"),
]
HISTORY_COLUMNS: list[Column] = [
    ("TIME", "time"),
    ("TYPE", lambda row: short_type(str(row.get("type", "")))),
    ("WHAT", lambda row: summary(row.get("data") or {})),
    ("SOURCE", "source"),
    ("BY", "accepted_by"),
    ("ID", "id"),
]
DELIVERY_COLUMNS: list[Column] = [
    ("ID", "id"),
    ("STATUS", "status"),
    ("CHANGE", lambda row: f"{row['event']['type'].split('.')[1]} {row['transition']}"),
    ("ASSET", "asset"),
    ("TRIES", "attempts"),
    ("ANSWER", lambda row: row.get("last_error") or row.get("last_status_code")),
    ("MS", lambda row: _rounded(milliseconds(row["hops"]["accepted_at"], row["hops"]["finished_at"]))),
]
HOPS = ("accepted_at", "noticed_at", "consumed_at", "committed_at", "sent_at", "finished_at")
Tags = Mapping[str, Sequence[str]]
_ENVELOPE = ("qualified_name", "aspect", "origin_kind")


def summary(data: Mapping[str, Any], length: int = 100) -> str:
    """A payload in a few words: its fields but those that the reader knows already."""
    shown = (
        f"{name}={_plain(value)}" for name, value in data.items() if name not in _ENVELOPE and _plain(value)
    )
    text = " ".join(shown)
    return text if len(text) <= length else text[: length - 1] + "…"


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}:{_plain(item)}" for name, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(_plain(item) for item in value)
    return "" if value is None else str(value)


def fields(record: Row, *, title: str | None = None) -> Table:
    """A record, a line per field that has a value."""
    shown = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    shown.add_column(style="bold")
    shown.add_column(overflow="fold")
    for name, value in record.items():
        if value not in (None, "", [], {}):
            shown.add_row(escape(name), cell(value))
    return shown


def asset(found: Row) -> RenderableType:
    """An asset: its fields, its tags with their origins, its other aspects."""
    shown = {
        name: value for name, value in found.items() if name not in ("tags", "extra", "aspects", "version")
    }
    shown |= found.get("extra") or {}
    shown["tags"] = [_tag(tag) for tag in found.get("tags") or []]
    parts: list[RenderableType] = [fields(shown)]
    parts += [fields(held, title=f"aspect {name}") for name, held in (found.get("aspects") or {}).items()]
    return Group(*parts)


def _tag(tag: Row) -> str:
    """A tag with who holds it, e.g. `PII (direct: holds addresses)`."""
    reasons = [
        f"{item['origin']}: {item['reason']}" if item.get("reason") else item["origin"]
        for item in tag["origins"]
    ]
    return f"{tag['tag']} ({'; '.join(reasons)})"


def lineage(root: str, edges: Sequence[Row], direction: str, nodes: Sequence[Row] = ()) -> Iterator[Tree]:
    """A tree per direction asked for, from the asset or from those of its columns that have edges."""
    tags = {str(node["qualified_name"]): list(node.get("tags") or []) for node in nodes}
    starts = [str(node["qualified_name"]) for node in nodes if node["distance"] == 0] or [root]
    if direction in ("upstream", "both"):
        yield _tree(f"{root} comes from", root, starts, edges, tags, near="downstream", far="upstream")
    if direction in ("downstream", "both"):
        yield _tree(f"{root} goes to", root, starts, edges, tags, near="upstream", far="downstream")


def _tree(
    title: str, root: str, starts: Sequence[str], edges: Sequence[Row], tags: Tags, *, near: str, far: str
) -> Tree:
    """Breadth first. What was shown before is not opened again, so that a cycle ends."""
    by_end: dict[str, list[Row]] = defaultdict(list)
    for edge in sorted(edges, key=lambda item: (str(item.get("kind")) != "table", str(item[far]))):
        by_end[str(edge[near])].append(edge)
    top = Tree(f"[bold]{escape(title)}[/bold]{_tags(tags, root)}")
    opened = {root, *starts}
    columns = [
        (top.add(escape(name) + _tags(tags, name)), name) for name in starts if name != root and by_end[name]
    ]
    pending = [(top, root), *columns]
    while pending:
        branch, name = pending.pop(0)
        for edge in by_end[name]:
            other = str(edge[far])
            again = " [dim](above)[/dim]" if other in opened and by_end[other] else ""
            node = branch.add(_edge_label(edge, other) + _tags(tags, other) + again)
            if other not in opened:
                opened.add(other)
                pending.append((node, other))
    if not top.children:
        top.add("[dim]nothing[/dim]")
    return top


def _tags(tags: Tags, name: str) -> str:
    return f" [bold magenta]{escape(', '.join(tags[name]))}[/bold magenta]" if tags.get(name) else ""


def _edge_label(edge: Row, other: str) -> str:
    notes = [str(edge[name]) for name in ("kind", "transformation") if edge.get(name)]
    return f"{escape(other)} [dim]{escape(' · '.join(notes))}[/dim]"


def delivery(found: Row) -> RenderableType:
    """A delivery, its hops and its attempts."""
    event = found["event"]
    plain = {
        **{name: value for name, value in found.items() if not isinstance(value, (list, dict))},
        "event": f"{event['type']} {event['source']} {event['id']}",
    }
    parts: list[RenderableType] = [fields(plain), "", hops(found["hops"])]
    if attempts := found.get("attempt_log"):
        columns: list[Column] = [(name.upper().replace("_", " "), name) for name in attempts[0]]
        parts += ["", table(attempts, columns, title="attempts")]
    return Group(*parts)


def hops(times: Row) -> Table:
    """When each hop was passed, and milliseconds since the one before and since acceptance."""
    rows, before, first = [], None, times.get(HOPS[0])
    for name in HOPS:
        at = times.get(name)
        rows.append(
            {
                "hop": name.removesuffix("_at"),
                "at": at,
                "step": milliseconds(before, at),
                "all": milliseconds(first, at),
            }
        )
        before = at or before
    columns: list[Column] = [
        ("HOP", "hop"),
        ("AT", "at"),
        ("MS", lambda row: _rounded(row["step"])),
        ("SINCE ACCEPTED", lambda row: _rounded(row["all"])),
    ]
    return table(rows, columns)


def _rounded(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f}"


def short_type(event_type: str) -> str:
    """`lily.classification.attached` as `classification.attached`."""
    return event_type.removeprefix("lily.")


def milliseconds(start: str | None, end: str | None) -> float | None:
    """Between two RFC 3339 times; None when one is missing."""
    if not start or not end:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() * 1000
