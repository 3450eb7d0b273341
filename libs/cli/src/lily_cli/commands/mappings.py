"""`lily mappings`: which assets an engine's tables are."""

from __future__ import annotations

from lily_cli.app import group
from lily_cli.declarations import Declared, mount

app = group("Mappings of an engine's tables to assets: apply, list, show, delete.")
mount(
    app,
    Declared(
        group="mappings",
        path="/v1/mappings",
        noun="mapping",
        example="shop",
        columns=[
            ("MAPPING", "name"),
            ("TABLE", lambda row: row["mapping"]["table"]),
            ("ASSET", lambda row: row["mapping"]["asset"]),
            ("ROWS", lambda row: row["mapping"]["rows"] or "all"),
            ("WRITES", lambda row: row["mapping"]["writes"]),
            ("WHEN STALE", lambda row: row["mapping"]["when_stale"]),
            ("VERSION", "version"),
        ],
        deleted="Its tables are then none of Lily's.",
    ),
)
