"""`lily deliveries`: what was sent where, and every attempt at it."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from lily_cli import views
from lily_cli.app import connect, examples, group
from lily_cli.client import path_segment
from lily_cli.output import JsonFlag, out, print_json, print_rows, say

app = group("Deliveries: list, show, retry.")
DeliveryArgument = Annotated[str, typer.Argument(help="Delivery id.")]


@app.command(
    "list",
    epilog=examples("lily deliveries list", "lily deliveries list --status dead --subscription sub_0f3a…"),
)
def list_deliveries(
    ctx: typer.Context,
    *,
    status: Annotated[
        Literal["pending", "delivered", "dead", "cancelled"] | None, typer.Option(help="Only those.")
    ] = None,
    subscription: Annotated[str | None, typer.Option(help="Only of this subscription (its id).")] = None,
    asset: Annotated[str | None, typer.Option(help="Only about this asset (its qualified name).")] = None,
    replay: Annotated[str | None, typer.Option(help="Only of this replay (its command's id).")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    """List deliveries, newest first."""
    with connect(ctx) as client:
        wanted = {"status": status, "subscription": subscription, "asset": asset, "replay_id": replay}
        rows = client.pages("/v1/deliveries", wanted, limit=limit)
        print_rows(rows, views.DELIVERY_COLUMNS, as_json=as_json, empty="no deliveries")


@app.command(epilog=examples("lily deliveries show 0f3a5c7e-9b1d-4f4a-8c8e-0b2d4f6a8c0e"))
def show(ctx: typer.Context, delivery: DeliveryArgument, as_json: JsonFlag = False) -> None:
    """Show a delivery, how long each hop took, and every attempt."""
    with connect(ctx) as client:
        found = client.get(f"/v1/deliveries/{path_segment(delivery)}")
    if as_json:
        print_json(found)
    else:
        out().print(views.delivery(found))


@app.command(epilog=examples("lily deliveries retry 0f3a5c7e-9b1d-4f4a-8c8e-0b2d4f6a8c0e"))
def retry(ctx: typer.Context, delivery: DeliveryArgument) -> None:
    """Send a delivery again, under the same id."""
    with connect(ctx) as client:
        client.post(f"/v1/deliveries/{path_segment(delivery)}/retry")
    say(f"{delivery} is on its way again")
