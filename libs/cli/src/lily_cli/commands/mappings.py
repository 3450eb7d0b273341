"""`lily mappings`: which assets an engine's tables are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from lily_cli.app import connect, examples, group
from lily_cli.client import path_segment
from lily_cli.declarations import declare
from lily_cli.output import Column, JsonFlag, print_fields, print_json, print_rows, say

app = group("Mappings of an engine's tables to assets: apply, list, show, delete.")
_MAPPINGS: Final = "/v1/mappings"
NameArgument = Annotated[str, typer.Argument(help="The mapping's name.")]


@app.command(epilog=examples("lily mappings apply shop.yaml"))
def apply(
    ctx: typer.Context,
    files: Annotated[
        list[Path], typer.Argument(help="Mappings, YAML or JSON; the file's name names the mapping.")
    ],
    as_json: JsonFlag = False,
) -> None:
    """Declare mappings, or change them."""
    with connect(ctx) as client:
        made = declare(client, _MAPPINGS, files)
    if as_json:
        print_json(made)


@app.command("list", epilog=examples("lily mappings list"))
def list_mappings(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List the mappings."""
    columns: list[Column] = [
        ("MAPPING", "name"),
        ("TABLE", lambda row: row["mapping"]["table"]),
        ("ASSET", lambda row: row["mapping"]["asset"]),
        ("ROWS", lambda row: row["mapping"]["rows"] or "all"),
        ("WRITES", lambda row: row["mapping"]["writes"]),
        ("WHEN STALE", lambda row: row["mapping"]["when_stale"]),
        ("VERSION", "version"),
    ]
    with connect(ctx) as client:
        print_rows(client.pages(_MAPPINGS), columns, as_json=as_json, empty="no mappings")


@app.command(epilog=examples("lily mappings show shop"))
def show(ctx: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    """Show a mapping."""
    with connect(ctx) as client:
        print_fields(client.get(f"{_MAPPINGS}/{path_segment(name)}"), as_json=as_json)


@app.command(epilog=examples("lily mappings delete shop"))
def delete(ctx: typer.Context, name: NameArgument) -> None:
    """Delete a mapping: its tables are then none of Lily's."""
    with connect(ctx) as client:
        client.delete(f"{_MAPPINGS}/{path_segment(name)}")
    say(f"{name} is deleted")
