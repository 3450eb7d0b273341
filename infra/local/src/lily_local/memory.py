"""Memory of a stack: proportional set size, so that pages shared between its processes count once."""

from __future__ import annotations

from lily_local import processes, state
from lily_local.config import StackConfig

SUPERVISOR = "supervisor"


def by_component(config: StackConfig) -> dict[str, int]:
    """PSS in bytes of each running component with its children, and of the supervisor by itself."""
    current = state.read(config.state_file)
    sizes = {}
    for name, known in current.components.items():
        if known.identity is not None:
            sizes[name] = processes.pss_bytes(processes.family([known.identity]))
    if current.supervisor is not None and (own := current.supervisor.process()) is not None:
        sizes[SUPERVISOR] = processes.pss_bytes([own])
    return sizes


def total(config: StackConfig) -> int:
    """PSS in bytes of all the stack's processes together."""
    return sum(by_component(config).values())
