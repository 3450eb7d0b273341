"""`lily enrichment`: tags by what assets look like."""

from __future__ import annotations

from typing import Any

from lily_cli.app import group
from lily_cli.declarations import Declared, mount


def _looks(when: dict[str, Any]) -> str:
    given = [(field, value) for field, value in when.items() if value]
    return "; ".join(
        f"{field} {value['regex'] if isinstance(value, dict) else ', '.join(value)}" for field, value in given
    )


app = group("Enrichment rules: apply, list, show, delete.")
mount(
    app,
    Declared(
        group="enrichment",
        path="/v1/enrichment/rules",
        noun="rule",
        example="emails",
        columns=[
            ("RULE", "name"),
            ("WHEN", lambda row: _looks(row["rule"]["when"])),
            ("TAGS", lambda row: ", ".join(row["rule"]["tags"])),
            ("ACTION", lambda row: row["rule"]["action"] if row["rule"]["enabled"] else "disabled"),
            ("VERSION", "version"),
        ],
        deleted="Everything that it gave is taken back.",
    ),
)
