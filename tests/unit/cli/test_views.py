"""Lineage as a tree: each way, cycles ended; keys' states; payloads in a few words."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Console

from lily_cli import views
from lily_cli.commands.keys import state


def text(tree) -> list[str]:
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(tree)
    return console.export_text().splitlines()


def edge(upstream: str, downstream: str) -> dict:
    return {"upstream": upstream, "downstream": downstream, "kind": "table"}


def test_both_ways():
    edges = [edge("orders", "revenue"), edge("customers", "revenue"), edge("revenue", "report")]
    above, below = views.lineage("revenue", edges, "both")
    assert text(above) == ["revenue comes from", "├── customers table", "└── orders table"]
    assert text(below) == ["revenue goes to", "└── report table"]


def test_cycles_and_diamonds_end():
    edges = [edge("a", "b"), edge("b", "c"), edge("c", "a"), edge("a", "d"), edge("d", "c")]
    [tree] = views.lineage("a", edges, "downstream")
    assert text(tree) == [
        "a goes to",
        "├── b table",
        "│   └── c table",
        "│       └── a table (above)",
        "└── d table",
        "    └── c table (above)",
    ]


def test_nothing():
    [tree] = views.lineage("a", [], "upstream")
    assert text(tree) == ["a comes from", "└── nothing"]


def test_key_states():
    now = datetime(2026, 1, 15, tzinfo=UTC)
    assert state({}, now) == "active"
    assert state({"expires_at": "2026-01-14T00:00:00Z"}, now) == "expired"
    assert state({"expires_at": "2026-02-14T00:00:00Z"}, now) == "expires 2026-02-14 00:00"
    assert (
        state({"expires_at": "2026-02-14T00:00:00Z", "revoked_at": "2026-01-01T00:00:00Z"}, now) == "revoked"
    )


def test_summary_leaves_out_what_is_known():
    data = {
        "qualified_name": "a://b",
        "aspect": "core",
        "set": {"name": "b", "n": None},
        "unset": ["x"],
        "empty": [],
    }
    assert views.summary(data) == "set=name:b,n: unset=x"
    assert views.summary({"text": "x" * 200}, 20) == "text=" + "x" * 14 + "…"
