"""How a stack is shown: the progress while it starts, the table and the JSON of `lily status`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from lily_local.components.registry import ALL
from lily_local.config import StackConfig
from lily_local.memory import SUPERVISOR
from lily_local.state import ComponentState, Phase, StackState

_STYLES: dict[Phase, str] = {
    "ready": "green",
    "done": "green",
    "failed": "bold red",
    "backoff": "yellow",
    "stopped": "dim",
    "waiting": "dim",
}
_MOVING = ("preparing", "starting", "stopping", "backoff")


def progress(current: StackState, wanted: Sequence[str]) -> Group:
    """One line per component; a spinner where something is going on."""
    lines: list[Spinner | Text] = []
    for name in wanted:
        known = current.components.get(name, ComponentState())
        label = f" {name:<11} {known.phase}"
        if known.phase in _MOVING:
            lines.append(Spinner("dots", text=f"{label} {time.time() - known.since:.0f} s"))
        else:
            lines.append(Text(f" {label}", style=_STYLES.get(known.phase, "")))
    return Group(*lines)


def table(config: StackConfig, current: StackState, sizes: Mapping[str, int]) -> Table:
    """The components in the registry's order, the supervisor, and the sum of their memory."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("component", "state", "pid", "port", "memory", "restarts", "last exit", "uptime"):
        right = column in ("pid", "port", "memory", "restarts", "uptime")
        shown.add_column(column, justify="right" if right else "left", no_wrap=True)
    for name in (name for name in ALL if name in current.components):
        known = current.components[name]
        style = _STYLES.get(known.phase, "")
        shown.add_row(
            name,
            Text(known.phase, style=style),
            str(known.pid or ""),
            _port(config, name),
            _megabytes(sizes.get(name)),
            str(known.restarts),
            _last_exit(known),
            _uptime(known),
        )
    if current.supervisor is not None:
        shown.add_row(SUPERVISOR, "", str(current.pid), "", _megabytes(sizes.get(SUPERVISOR)), "", "", "")
    shown.add_row("total", "", "", "", _megabytes(sum(sizes.values())), "", "", "", style="bold")
    for name, known in current.components.items():
        if known.phase == "failed":
            shown.caption = escape(f"{name}: {known.error}")
    return shown


def as_document(config: StackConfig, current: StackState, sizes: Mapping[str, int]) -> dict[str, Any]:
    """`lily status --json`: memory in bytes, times in seconds."""
    components = {
        name: {
            "state": known.phase,
            "pid": known.pid or None,
            "port": config.port(ALL[name].ports[0]) if ALL[name].ports else None,
            "memory_pss": sizes.get(name),
            "restarts": known.restarts,
            "last_exit": known.exit_code,
            "last_exit_at": known.exited_at,
            "uptime": round(time.time() - known.since, 1) if known.phase == "ready" else None,
            "error": known.error or None,
        }
        for name, known in current.components.items()
    }
    up = current.supervisor is not None
    return {
        "home": str(config.home),
        "up": up,
        "supervisor": {"pid": current.pid if up else None, "memory_pss": sizes.get(SUPERVISOR)},
        "memory_pss": sum(sizes.values()),
        "components": components,
    }


def _port(config: StackConfig, name: str) -> str:
    names = ALL[name].ports
    return str(config.port(names[0])) if names else ""


def _megabytes(size: int | None) -> str:
    return "" if size is None else f"{size / 1e6:,.0f} MB"


def _last_exit(known: ComponentState) -> str:
    if known.exit_code is None or known.exited_at is None or known.phase == "done":
        return ""
    how = f"signal {-known.exit_code}" if known.exit_code < 0 else f"code {known.exit_code}"
    return f"{how} {time.strftime('%H:%M:%S', time.localtime(known.exited_at))}"


def _uptime(known: ComponentState) -> str:
    if known.phase != "ready":
        return ""
    seconds = int(time.time() - known.since)
    minutes, hours = seconds // 60, seconds // 3600
    if hours:
        return f"{hours}h{minutes % 60:02d}m"
    return f"{minutes}m{seconds % 60:02d}s" if minutes else f"{seconds}s"
