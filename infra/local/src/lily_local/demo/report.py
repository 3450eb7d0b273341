"""Step 5: what Lily holds now, as tables: the asset, its lineage, its history, the deliveries, the hops."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from lily_cli import output, views
from lily_cli.client import LilyClient, path_segment
from lily_local.demo.checks import require, until
from lily_local.demo.lineage import walk
from lily_local.demo.notices import TAG, Told

LAKE_SECONDS = 60
_DEPTH = 3


def show_asset(console: Console, client: LilyClient, column: str) -> None:
    """From the mirror: it has the tag."""
    found = until(f"{column} with the tag {TAG}", lambda: _tagged(client, column), LAKE_SECONDS)
    console.print(f"\n[bold]The asset[/bold] (from the mirror)   [dim]lily assets get {column}[/dim]")
    console.print(views.asset(found))


def show_lineage(console: Console, client: LilyClient, column: str, mart: str) -> None:
    """Where the tagged column goes, and where a mart comes from."""
    below = walk(client, column, "downstream", _DEPTH)
    above = walk(client, mart, "upstream", 1, "column")
    require(below["edges"], f"nothing comes from {column}")
    console.print(f"\n[bold]Its lineage[/bold]   [dim]lily assets lineage {column}[/dim]")
    for found in (below, above):
        for tree in views.lineage(found["root"], found["edges"], found["direction"], found["nodes"]):
            console.print(tree)


def show_history(console: Console, client: LilyClient, column: str, event_ids: Sequence[str]) -> float:
    """From the lake: every change, those of step 4 included. Milliseconds that the lake made us wait."""
    started = time.monotonic()
    rows = until(
        f"the history of {column} in the lake", lambda: _history(client, column, event_ids), LAKE_SECONDS
    )
    waited = (time.monotonic() - started) * 1000
    console.print(f"\n[bold]Its history[/bold] (from the lake)   [dim]lily assets history {column}[/dim]")
    console.print(output.table(_folded(rows), [*views.HISTORY_COLUMNS[:-1], ("TIMES", "times")]))
    return waited


def show_deliveries(console: Console, client: LilyClient, told: Sequence[Told]) -> int:
    """Every delivery of this run's subscriptions; how many there are."""
    rows = list(client.pages("/v1/deliveries", limit=200))
    of_tag = {item.event_id for item in told}
    shown = [row for row in rows if row["event"]["id"] in of_tag]
    require(
        len(shown) >= len(told), f"{len(told)} notices were received, {len(shown)} deliveries are recorded"
    )
    names = {item["id"]: item["name"] for item in client.pages("/v1/subscriptions")}
    to: output.Column = ("TO", lambda row: names.get(row["subscription_id"]))
    console.print("\n[bold]The deliveries[/bold]   [dim]lily deliveries list[/dim]")
    console.print(output.table(shown, [*views.DELIVERY_COLUMNS[:3], to, *views.DELIVERY_COLUMNS[4:]]))
    return len(shown)


def show_hops(console: Console, told: Sequence[Told]) -> None:
    """Milliseconds since the POST was sent at which each hop was passed."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("milliseconds since the POST")
    for item in told:
        shown.add_column(f"{item.change}\n{item.receiver}", justify="right")
    hops = {name: None for item in told for name in item.hops}
    order = sorted(hops, key=lambda name: min(item.milliseconds()[name] for item in told))
    for name in order:
        shown.add_row(_HOP_NAMES[name], *(f"{item.milliseconds()[name]:.1f}" for item in told))
    console.print(shown)


_HOP_NAMES = {
    "posted": "POST sent",
    "accepted": "accepted by the API",
    "acknowledged": "answered: in Kafka",
    "noticed": "notice in Kafka (fan-out)",
    "consumed": "read by egress",
    "committed": "committed in PostgreSQL",
    "sent": "sent to the receiver",
    "received": "received",
}


def _tagged(client: LilyClient, column: str) -> dict[str, Any] | None:
    found: dict[str, Any] = client.get(f"/v1/assets/{path_segment(column)}")
    return found if any(held["tag"] == TAG for held in found["tags"]) else None


def _history(client: LilyClient, column: str, event_ids: Sequence[str]) -> list[dict[str, Any]] | None:
    rows = list(client.pages(f"/v1/assets/{path_segment(column)}/history", limit=200))
    return rows if set(event_ids) <= {row["id"] for row in rows} else None


def _folded(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbours that say the same become one with a count: the listener reports a job's columns again and again."""
    folded: list[dict[str, Any]] = []
    for row in rows:
        last = folded[-1] if folded else None
        if last is not None and all(last[name] == row[name] for name in ("type", "source", "data")):
            last["times"] += 1
        else:
            folded.append({**row, "times": 1})
    return folded
