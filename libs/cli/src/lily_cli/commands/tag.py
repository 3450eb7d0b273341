"""`lily tag`: attach a classification to an asset, or detach it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lily_cli import events
from lily_cli.app import connect, examples
from lily_cli.errors import CliError
from lily_cli.output import print_json, say


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "lily tag postgres://shop-db:5432/shop/public/customers/email PII",
            "lily tag postgres://shop-db:5432/shop/public/customers/email PII --remove",
            "lily tag postgres://shop-db:5432/shop/public/customers/email PII --origin scanner --reason 'looks like one'",
        )
    )(tag)


def tag(
    ctx: typer.Context,
    *,
    asset: Annotated[str, typer.Argument(metavar="QUALIFIED_NAME", help="The asset.")],
    name: Annotated[str, typer.Argument(metavar="TAG", help="e.g. PII.")],
    remove: Annotated[bool, typer.Option("--remove", help="Detach instead of attach.")] = False,
    origin: Annotated[
        str, typer.Option(help="Who says so: a tag stays while any origin holds it.")
    ] = "direct",
    reason: Annotated[str | None, typer.Option(help="Why, for those who are told.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the event and its acceptance as JSON.")
    ] = False,
) -> None:
    """Attach a tag to an asset (or --remove it). Returns when the change is safe in Kafka."""
    data: dict[str, Any] = {"qualified_name": asset, "tag": name, "origin": origin, "origin_kind": "direct"}
    if reason:
        data["reason"] = reason
    event = events.make(f"lily.classification.{'detached' if remove else 'attached'}", data)
    with connect(ctx) as client:
        item = client.send_events([event])["items"][0]
    if item["status"] != "accepted":
        raise CliError((item.get("problem") or {}).get("detail", "rejected"))
    if as_json:
        print_json({"event": event, "result": item})
    else:
        say(f"{name} {'detached from' if remove else 'attached to'} {asset} (event {event['id']})")
