"""What Connect and databases say, made fit to show: short, and without the password."""

from __future__ import annotations

_MAX_LINE = 400
_MAX_CAUSES = 4
MASK = "**********"


def shown(text: str, password: str | None, *, whole: bool = False) -> str:
    """One line of a message: Connect's frame around it taken off, cut unless `whole`, the password masked."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    kept = [
        line
        for line in lines
        if not line.startswith(("Connector configuration is invalid", "You can also find"))
    ]
    line = _masked(" ".join(kept or lines), password)
    return line if whole else line[:_MAX_LINE]


def shortened(trace: str, password: str | None) -> str:
    """A Java stack trace without its frames: the exception and what caused it, a line each, the last causes kept."""
    heads = [
        line.strip()
        for line in trace.splitlines()
        if line.strip()
        and not line.startswith(("\t", "    at "))
        and not line.strip().startswith(("at ", "... "))
    ]
    causes = heads[:1] + heads[1:][-_MAX_CAUSES:]
    return "\n".join(_masked(line, password)[:_MAX_LINE] for line in causes)


def _masked(text: str, password: str | None) -> str:
    return text.replace(password, MASK) if password else text
