"""The form of every benchmark's result, how it is written and printed, and when a run fails."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "results"
PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "max": 1.0}


@dataclass(frozen=True)
class Gate:
    """What was sent and what arrived, as sets: `lost` of the sent did not arrive, `duplicates` arrived once too often."""

    sent: int
    received: int
    lost: int
    duplicates: int
    #: Whether the case promises each thing once; where delivery is at least once, a repeat is told but fails nothing.
    once: bool = field(default=False, repr=False)

    @property
    def passed(self) -> bool:
        return self.lost == 0 and self.received == self.sent and not (self.once and self.duplicates)


@dataclass
class Row:
    """One case. `ratio` says how many times better ours is than the peer (above 1 is better)."""

    case: str
    ours: Mapping[str, Any]
    gate: Gate
    peer: Mapping[str, Any] | None = None
    ratio: float | None = None

    def document(self) -> dict[str, Any]:
        gate = {name: value for name, value in asdict(self.gate).items() if name != "once"}
        return {"case": self.case, "ours": self.ours, "peer": self.peer, "ratio": self.ratio, "gate": gate}


def percentiles(values_ms: Sequence[float]) -> dict[str, float]:
    """p50, p95, p99 and max in milliseconds, by nearest rank; empty of an empty sequence."""
    ordered = sorted(values_ms)
    if not ordered:
        return {}
    return {
        name: round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 2)
        for name, share in PERCENTILES.items()
    }


def save(
    name: str, rows: Sequence[Row], notes: Mapping[str, Any] | None = None, *, others: bool = False
) -> Path:
    """Write `bench/results/<name>.json`; with `others` the rows of cases that are not among these stay in it."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    made = [row.document() for row in rows]
    if others and path.exists():
        cases = {row["case"] for row in made}
        made = [row for row in orjson.loads(path.read_bytes())["rows"] if row["case"] not in cases] + made
    document: dict[str, Any] = {"name": name, "rows": made}
    if notes:
        document["notes"] = notes
    path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
    return path


def publish(
    name: str, rows: Sequence[Row], notes: Mapping[str, Any] | None = None, *, others: bool = False
) -> int:
    """`save`, print the table, return the exit code: 1 when a gate failed, else 0."""
    path = save(name, rows, notes, others=others)
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(_table(name, rows))
    for row in rows:
        details = {key: value for key, value in row.ours.items() if isinstance(value, Mapping | list)}
        for key, value in details.items():
            console.print(f"[bold]{row.case}[/] {key}: {orjson.dumps(value).decode()}", soft_wrap=True)
    failed = [row.case for row in rows if not row.gate.passed]
    if failed:
        console.print(f"[red]gate failed: {', '.join(failed)}")
    console.print(f"written to {path.relative_to(RESULTS.parents[1])}")
    return 1 if failed else 0


def _table(name: str, rows: Sequence[Row]) -> Table:
    table = Table(title=name)
    for heading in ("case", "ours", "peer", "ratio", "sent", "received", "lost", "duplicates"):
        table.add_column(heading, no_wrap=True)
    for row in rows:
        gate = row.gate
        counts = [str(count) for count in (gate.sent, gate.received, gate.lost, gate.duplicates)]
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}×"
        table.add_row(row.case, _figures(row.ours), _figures(row.peer or {}), ratio, *counts)
    return table


def _figures(figures: Mapping[str, Any]) -> str:
    return "\n".join(
        f"{key} {value}" for key, value in figures.items() if not isinstance(value, Mapping | list)
    )
