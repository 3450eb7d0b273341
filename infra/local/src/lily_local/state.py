"""What the supervisor knows, written for the commands to read; one atomic file, no protocol."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from lily_local.files import write_atomic
from lily_local.processes import Identity

Phase = Literal[
    "waiting", "preparing", "starting", "ready", "done", "backoff", "failed", "stopping", "stopped"
]
SETTLED: frozenset[Phase] = frozenset({"ready", "done", "failed"})


@dataclass
class ComponentState:
    """One component; times are seconds since the epoch, `exit_code` is negative for a signal."""

    phase: Phase = "waiting"
    pid: int = 0
    started: int = 0
    restarts: int = 0
    since: float = 0.0
    exit_code: int | None = None
    exited_at: float | None = None
    error: str = ""

    @property
    def identity(self) -> Identity | None:
        return Identity(self.pid, self.started) if self.pid else None


@dataclass
class StackState:
    """The supervisor, its components by name, and the generation of stack.json that it follows."""

    pid: int = 0
    started: int = 0
    generation: int = 0
    components: dict[str, ComponentState] = field(default_factory=dict)

    @property
    def supervisor(self) -> Identity | None:
        identity = Identity(self.pid, self.started) if self.pid else None
        return identity if identity is not None and identity.alive else None

    def save(self, path: Path) -> None:
        write_atomic(path, json.dumps(asdict(self), indent=1))


def read(path: Path) -> StackState:
    """The last state written; an empty one when there is none."""
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        return StackState()
    components = {name: ComponentState(**value) for name, value in document["components"].items()}
    return StackState(document["pid"], document["started"], document["generation"], components)
