"""`lily assets`: what is known of an asset, now and in the past."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from lily_cli import views
from lily_cli.app import connect, examples, group
from lily_cli.client import path_segment
from lily_cli.output import JsonFlag, out, print_json, print_rows, say

app = group("Assets: get, list, tags, lineage, incidents, history.")
AssetArgument = Annotated[
    str, typer.Argument(metavar="QUALIFIED_NAME", help="e.g. postgres://shop-db:5432/shop/public/customers.")
]


@app.command(
    epilog=examples(
        "lily assets get postgres://shop-db:5432/shop/public/customers/email",
        "lily assets get postgres://shop-db:5432/shop/public/customers --as-of 2026-01-15T18:00:00Z",
    )
)
def get(
    ctx: typer.Context,
    *,
    asset: AssetArgument,
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="Time (RFC 3339): as the lake had it then.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show an asset: latest from the mirror, or as it was."""
    with connect(ctx) as client:
        found = client.get(f"/v1/assets/{path_segment(asset)}", {"as_of": as_of})
    if as_json:
        print_json(found)
    else:
        out().print(views.asset(found))


@app.command(epilog=examples("lily assets tags postgres://shop-db:5432/shop/public/customers/email"))
def tags(
    ctx: typer.Context,
    *,
    asset: AssetArgument,
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="Time (RFC 3339): as the lake had it then.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show an asset's tags, and why each is there."""
    with connect(ctx) as client:
        found = client.get(f"/v1/assets/{path_segment(asset)}/tags", {"explain": True, "as_of": as_of})
    if as_json:
        print_json(found)
        return
    for held in found["tags"]:
        out().print(held["tag"], style="bold")
        for origin in held["origins"]:
            say(f"  {origin['because']}")
    if not found["tags"]:
        say("no tags")


@app.command(
    "list",
    epilog=examples("lily assets list --tag PII", "lily assets list --type table --query orders --limit 20"),
)
def list_assets(
    ctx: typer.Context,
    *,
    kind: Annotated[str | None, typer.Option("--type", help="Asset type, e.g. table.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only assets with this tag.")] = None,
    parent: Annotated[str | None, typer.Option(help="Qualified name of the parent.")] = None,
    query: Annotated[str | None, typer.Option("--query", "-q", help="Text to search names for.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 100,
    as_json: JsonFlag = False,
) -> None:
    """List assets."""
    wanted = {"type": kind, "tag": tag, "parent": parent, "q": query}
    with connect(ctx) as client:
        rows = client.pages("/v1/assets", wanted, limit=limit)
        print_rows(rows, views.ASSET_COLUMNS, as_json=as_json, empty="no such assets")


@app.command(
    epilog=examples(
        "lily assets lineage file:///data/marts/daily_revenue --direction upstream",
        "lily assets lineage postgres://shop-db:5432/shop/public/customers/email --direction downstream --depth 5",
    )
)
def lineage(
    ctx: typer.Context,
    *,
    asset: AssetArgument,
    direction: Annotated[
        Literal["upstream", "downstream", "both"], typer.Option(help="Which way to walk.")
    ] = "both",
    depth: Annotated[int, typer.Option(min=1, help="How many steps.")] = 3,
    level: Annotated[
        Literal["table", "column"] | None,
        typer.Option(help="Only these edges; column begins at a table's columns."),
    ] = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="Time (RFC 3339): as the lake had it then.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show where an asset's data comes from and where it goes."""
    with connect(ctx) as client:
        wanted = {"direction": direction, "depth": depth, "level": level, "as_of": as_of}
        found = client.get(f"/v1/assets/{path_segment(asset)}/lineage", wanted)
    if as_json:
        print_json(found)
        return
    for tree in views.lineage(asset, found["edges"], direction, nodes=found["nodes"]):
        out().print(tree)
    if found["truncated"]:
        say("there is more than is shown")


@app.command(epilog=examples("lily assets incidents postgres://shop-db:5432/shop/public/orders"))
def incidents(ctx: typer.Context, asset: AssetArgument, as_json: JsonFlag = False) -> None:
    """List an asset's incidents."""
    with connect(ctx) as client:
        rows = client.pages(f"/v1/assets/{path_segment(asset)}/incidents")
        print_rows(rows, views.INCIDENT_COLUMNS, as_json=as_json, empty="no incidents")


@app.command(epilog=examples("lily assets history postgres://shop-db:5432/shop/public/customers/email"))
def history(
    ctx: typer.Context,
    *,
    asset: AssetArgument,
    limit: Annotated[int, typer.Option(min=1, help="At most this many changes.")] = 100,
    as_json: JsonFlag = False,
) -> None:
    """List every change of an asset, from the lake."""
    with connect(ctx) as client:
        rows = list(client.pages(f"/v1/assets/{path_segment(asset)}/history", limit=limit))
    print_rows(rows, views.HISTORY_COLUMNS, as_json=as_json, empty="nothing in the lake yet")
    if not as_json and len(rows) == limit:
        say(f"there may be more: --limit {limit * 10}")
