"""`lily harvest`: read a system's catalogue and send it as events."""

from __future__ import annotations

from lily_cli.app import group

app = group("Harvest the catalogue of a system: postgres.")
