"""`lily replay`: events of the past, again, to one target."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from lily_cli.app import connect, examples
from lily_cli.client import LilyClient, path_segment
from lily_cli.errors import CliError, UsageError
from lily_cli.output import err, print_fields, print_json, say

_OVER: Final = ("succeeded", "failed", "cancelled")
_POLL_SECONDS = 0.5


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "lily replay --from 2026-01-02T10:00:00Z --to 2026-01-02T11:00:00Z --to-topic audit",
            "lily replay --from 4711 --types lily.classification.attached --to-subscription sub_0f3a…",
            "lily replay --assets 'postgres://shop-db:5432/shop/*' --to-topic shop --rate 1000",
        )
    )(replay)


def replay(
    ctx: typer.Context,
    *,
    begin: Annotated[
        str | None, typer.Option("--from", help="First commit, or an RFC 3339 time. Default: the first kept.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", help="Last commit, or the time before which. Default: the last.")
    ] = None,
    types: Annotated[list[str] | None, typer.Option(help="Only events of this type; repeatable.")] = None,
    assets: Annotated[
        list[str] | None,
        typer.Option(help="Only of this asset; with * at its end, of all that begin so; repeatable."),
    ] = None,
    to_subscription: Annotated[
        str | None, typer.Option(help="Deliver to this subscription (its id).")
    ] = None,
    to_topic: Annotated[
        str | None, typer.Option(help="Write to the Kafka topic lily.<tenant>.replay.<this name>.")
    ] = None,
    rate: Annotated[float, typer.Option(min=0.001, max=5000, help="Events a second.")] = 200,
    no_filter: Annotated[
        bool, typer.Option("--no-filter", help="Send what the subscription's own filter would keep out, too.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Show how it goes until it is over; Ctrl-C cancels it.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the command as JSON at the end.")] = False,
) -> None:
    """Send events of the past again, in order for each asset, to one subscription or topic."""
    if (to_subscription is None) == (to_topic is None):
        raise UsageError("give exactly one of --to-subscription and --to-topic")
    args: dict[str, Any] = {
        "from": begin,
        "to": end,
        "types": types or [],
        "assets": assets or [],
        "to_subscription": to_subscription,
        "to_topic": to_topic,
        "rate": rate,
        "filter": not no_filter,
    }
    with connect(ctx) as client:
        given: dict[str, Any] = client.post("/v1/commands", {"command": "replay", "args": args})
        outcome = _follow(client, given) if wait else given
    if as_json:
        print_json(outcome)
    else:
        print_fields(outcome, as_json=False)
    if wait and outcome["status"] != "succeeded":
        raise CliError(f"{outcome['id']} is {outcome['status']}")


def _follow(client: LilyClient, given: dict[str, Any]) -> dict[str, Any]:
    """The command once it is over. Ctrl-C cancels it."""
    path = f"/v1/commands/{path_segment(given['id'])}"
    try:
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=err(),
            transient=True,
        ) as shown:
            task = shown.add_task("waiting for the lake job", total=None)
            while given["status"] not in _OVER:
                time.sleep(_POLL_SECONDS)
                given = client.get(path)
                detail = given.get("detail")
                if isinstance(detail, dict):
                    place = detail.get("position") or {}
                    shown.update(
                        task,
                        description=f"sent {detail.get('sent', 0)} events, at {place.get('time') or 'the start'}, commit",
                        completed=place.get("commit") or 0,
                        total=detail.get("last_commit"),
                    )
    except KeyboardInterrupt:
        cancelled: dict[str, Any] = client.post(f"{path}/cancel")
        say(f"{given['id']} is cancelled")
        return cancelled
    return given
