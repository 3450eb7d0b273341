"""`lily enrichment`: tags by what assets look like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from lily_cli.app import connect, examples, group
from lily_cli.client import path_segment
from lily_cli.declarations import declare
from lily_cli.output import Column, JsonFlag, print_fields, print_json, print_rows, say

app = group("Enrichment rules: apply, list, show, delete.")
_RULES: Final = "/v1/enrichment/rules"
NameArgument = Annotated[str, typer.Argument(help="The rule's name.")]


@app.command(epilog=examples("lily enrichment apply emails.yaml"))
def apply(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Rules, YAML or JSON; the file's name names the rule.")],
    as_json: JsonFlag = False,
) -> None:
    """Declare rules, or change them."""
    with connect(ctx) as client:
        made = declare(client, _RULES, files)
    if as_json:
        print_json(made)


@app.command("list", epilog=examples("lily enrichment list"))
def list_rules(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List the rules."""
    columns: list[Column] = [
        ("RULE", "name"),
        ("WHEN", lambda row: _looks(row["rule"]["when"])),
        ("TAGS", lambda row: ", ".join(row["rule"]["tags"])),
        ("ACTION", lambda row: row["rule"]["action"] if row["rule"]["enabled"] else "disabled"),
        ("VERSION", "version"),
    ]
    with connect(ctx) as client:
        print_rows(client.pages(_RULES), columns, as_json=as_json, empty="no rules")


@app.command(epilog=examples("lily enrichment show emails"))
def show(ctx: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    """Show a rule."""
    with connect(ctx) as client:
        print_fields(client.get(f"{_RULES}/{path_segment(name)}"), as_json=as_json)


@app.command(epilog=examples("lily enrichment delete emails"))
def delete(ctx: typer.Context, name: NameArgument) -> None:
    """Delete a rule: everything that it gave is taken back."""
    with connect(ctx) as client:
        client.delete(f"{_RULES}/{path_segment(name)}")
    say(f"{name} is deleted")


def _looks(when: dict[str, Any]) -> str:
    given = [(field, value) for field, value in when.items() if value]
    return "; ".join(
        f"{field} {value['regex'] if isinstance(value, dict) else ', '.join(value)}" for field, value in given
    )
