"""`lily commands`: orders to the lake job, and how they went."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer

from lily_cli.app import connect, examples, group
from lily_cli.client import LilyClient, path_segment
from lily_cli.durations import parse_duration
from lily_cli.errors import CliError
from lily_cli.output import Column, JsonFlag, print_fields, print_rows

app = group("Commands of the lake job: send, list, show.")
_COLUMNS: list[Column] = [
    ("ID", "id"),
    ("COMMAND", "command"),
    ("STATUS", "status"),
    ("DETAIL", "detail"),
    ("CREATED", "created_at"),
    ("UPDATED", "updated_at"),
]
_OVER: Final = ("succeeded", "failed", "cancelled")
_POLL_SECONDS = 0.5


@app.command(
    epilog=examples("lily commands send rebuild_mirror --wait 5m", "lily --tenant acme commands send compact")
)
def send(
    ctx: typer.Context,
    *,
    command: Annotated[str, typer.Argument(help="rebuild_mirror, or compact (the operator's).")],
    wait: Annotated[str | None, typer.Option(help="Wait at most this long for its end, e.g. 5m.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Order something of the lake job; with --wait exits with 1 unless it succeeds."""
    seconds = parse_duration(wait, "--wait").total_seconds() if wait else 0.0
    with connect(ctx) as client:
        given: dict[str, Any] = client.post("/v1/commands", {"command": command})
        outcome = _outcome(client, given, seconds)
    print_fields(outcome, as_json=as_json)
    if seconds and outcome["status"] != "succeeded":
        raise CliError(f"{outcome['id']} is {outcome['status']}")


@app.command("list", epilog=examples("lily commands list"))
def list_commands(
    ctx: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    """List the tenant's commands, newest first."""
    with connect(ctx) as client:
        print_rows(client.pages("/v1/commands", limit=limit), _COLUMNS, as_json=as_json, empty="no commands")


@app.command(epilog=examples("lily commands show cmd_0f3a5c7e9b1d2f4a6c8e0b2d"))
def show(
    ctx: typer.Context, command: Annotated[str, typer.Argument(help="Command id.")], as_json: JsonFlag = False
) -> None:
    """Show one command and how it went."""
    with connect(ctx) as client:
        print_fields(client.get(f"/v1/commands/{path_segment(command)}"), as_json=as_json)


@app.command(epilog=examples("lily commands cancel cmd_0f3a5c7e9b1d2f4a6c8e0b2d"))
def cancel(
    ctx: typer.Context,
    command: Annotated[str, typer.Argument(help="Command id of a replay.")],
    as_json: JsonFlag = False,
) -> None:
    """Cancel a replay: nothing more of it is sent."""
    with connect(ctx) as client:
        print_fields(client.post(f"/v1/commands/{path_segment(command)}/cancel"), as_json=as_json)


def _outcome(client: LilyClient, given: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The command once it is over, or as it is when `seconds` have passed."""
    deadline = time.monotonic() + seconds
    while given["status"] not in _OVER and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        given = client.get(f"/v1/commands/{path_segment(given['id'])}")
    return given
