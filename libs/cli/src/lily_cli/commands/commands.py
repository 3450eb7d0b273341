"""`lily commands`: orders to the lake job, and how they went."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lily_cli.app import connect, examples, group, json_option
from lily_cli.client import path_segment
from lily_cli.output import JsonFlag, print_fields, print_rows

app = group("Commands of the lake job: send, list, show.")
COLUMNS = [
    ("ID", "id"),
    ("KIND", "kind"),
    ("STATUS", "status"),
    ("CREATED", "created_at"),
    ("FINISHED", "finished_at"),
    ("RESULT", "result"),
]


@app.command(epilog=examples("lily commands send rebuild-mirror", "lily commands send compact"))
def send(
    ctx: typer.Context,
    *,
    kind: Annotated[str, typer.Argument(help="What the lake job shall do.")],
    arguments: Annotated[str | None, typer.Option("--arguments", help="JSON, or @file.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Order something; the answer is the command's id."""
    body: dict[str, Any] = {"kind": kind, "arguments": json_option(arguments, "--arguments") or {}}
    with connect(ctx) as client:
        print_fields(client.post("/v1/commands", body), as_json=as_json)


@app.command("list", epilog=examples("lily commands list"))
def list_commands(
    ctx: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    """List the tenant's commands, newest first."""
    with connect(ctx) as client:
        print_rows(client.pages("/v1/commands", limit=limit), COLUMNS, as_json=as_json, empty="no commands")


@app.command(epilog=examples("lily commands show cmd_0f3a5c7e9b1d2f4a6c8e0b2d"))
def show(
    ctx: typer.Context, command: Annotated[str, typer.Argument(help="Command id.")], as_json: JsonFlag = False
) -> None:
    """Show one command and its result."""
    with connect(ctx) as client:
        print_fields(client.get(f"/v1/commands/{path_segment(command)}"), as_json=as_json)
