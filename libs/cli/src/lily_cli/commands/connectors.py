"""`lily connectors`: what a tenant has connected."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lily_cli.app import connect, examples, group, json_option
from lily_cli.client import path_segment
from lily_cli.durations import parse_duration
from lily_cli.output import Column, JsonFlag, print_fields, print_json, print_rows, say

app = group("Connectors: kinds, create, list, show, status, pause, resume, rotate-secret, delete.")
ConnectorArgument = Annotated[str, typer.Argument(help="Connector id.")]
SecretOption = Annotated[
    str | None,
    typer.Option(envvar="LILY_CONNECTOR_SECRET", help="The vendor's secret, where the vendor gives it out."),
]
PasswordOption = Annotated[
    str | None,
    typer.Option(
        envvar="LILY_CONNECTOR_PASSWORD", help="Password of the database, for sources of change data."
    ),
]


@app.command(epilog=examples("lily connectors kinds", "lily connectors kinds --json"))
def kinds(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List the kinds there are; with --json also the schema of each configuration."""
    columns = [("KIND", "kind"), ("DIRECTION", "direction"), ("WHAT", "summary")]
    with connect(ctx) as client:
        print_rows(client.get("/v1/connector-kinds")["items"], columns, as_json=as_json, empty="no kinds")


@app.command(
    epilog=examples(
        """lily connectors create montecarlo --name mc --config '{"namespace": "postgres://shop-db:5432"}'""",
        "lily connectors create montecarlo --name mc --config @connector.json",
        "lily connectors create debezium-postgres --name shop --config @shop.json",
    )
)
def create(
    ctx: typer.Context,
    *,
    kind: Annotated[str, typer.Argument(help="One of `lily connectors kinds`.")],
    name: Annotated[str, typer.Option(help="Name for people, unique in the tenant.")],
    config: Annotated[str | None, typer.Option(help="JSON, or @file.")] = None,
    secret: SecretOption = None,
    password: PasswordOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a connector. The URL that the vendor has to call and the secret are printed; the secret this once."""
    body: dict[str, Any] = {"kind": kind, "name": name, "config": json_option(config, "--config") or {}}
    if password and isinstance(body["config"], dict):
        body["config"] = {"password": password, **body["config"]}
    if secret:
        body["secret"] = secret
    with connect(ctx) as client:
        print_fields(client.post("/v1/connectors", body), as_json=as_json)


@app.command("list", epilog=examples("lily connectors list"))
def list_connectors(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List the tenant's connectors."""
    columns = [
        ("ID", "id"),
        ("KIND", "kind"),
        ("NAME", "name"),
        ("DIRECTION", "direction"),
        ("STATUS", "status"),
    ]
    with connect(ctx) as client:
        print_rows(client.pages("/v1/connectors"), columns, as_json=as_json, empty="no connectors")


@app.command(epilog=examples("lily connectors show con_0f3a5c7e9b1d2f4a6c8e0b2d"))
def show(ctx: typer.Context, connector: ConnectorArgument, as_json: JsonFlag = False) -> None:
    """Show one connector, without its secret."""
    with connect(ctx) as client:
        print_fields(client.get(f"/v1/connectors/{path_segment(connector)}"), as_json=as_json)


@app.command(epilog=examples("lily connectors status con_0f3a5c7e9b1d2f4a6c8e0b2d"))
def status(ctx: typer.Context, connector: ConnectorArgument, as_json: JsonFlag = False) -> None:
    """Show how a connector does: its state, its tasks and their errors."""
    with connect(ctx) as client:
        found = client.get(f"/v1/connectors/{path_segment(connector)}/status")
    _print_status(found, as_json=as_json)


@app.command(epilog=examples("lily connectors pause con_0f3a5c7e9b1d2f4a6c8e0b2d"))
def pause(ctx: typer.Context, connector: ConnectorArgument, as_json: JsonFlag = False) -> None:
    """Pause a connector. A source of change data goes on where it stopped when it is resumed."""
    _set_status(ctx, connector, "paused", as_json=as_json)


@app.command(epilog=examples("lily connectors resume con_0f3a5c7e9b1d2f4a6c8e0b2d"))
def resume(ctx: typer.Context, connector: ConnectorArgument, as_json: JsonFlag = False) -> None:
    """Resume a paused connector."""
    _set_status(ctx, connector, "active", as_json=as_json)


@app.command("rotate-secret", epilog=examples("lily connectors rotate-secret con_0f3a5c7e9b1d2f4a6c8e0b2d"))
def rotate_secret(
    ctx: typer.Context,
    *,
    connector: ConnectorArgument,
    grace: Annotated[str, typer.Option(help="How long the old secret stays valid, e.g. 1h.")] = "1d",
    secret: SecretOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a new secret; it is printed this once."""
    body: dict[str, Any] = {"grace_seconds": int(parse_duration(grace, "--grace").total_seconds())}
    if secret:
        body["secret"] = secret
    with connect(ctx) as client:
        answer = client.post(f"/v1/connectors/{path_segment(connector)}/rotate-secret", body)
        print_fields(answer, as_json=as_json)


@app.command(epilog=examples("lily connectors delete con_0f3a5c7e9b1d2f4a6c8e0b2d"))
def delete(ctx: typer.Context, connector: ConnectorArgument) -> None:
    """Delete a connector: its URL answers 404 from now on. Of a source of change data it tells what is left."""
    with connect(ctx) as client:
        left = client.delete(f"/v1/connectors/{path_segment(connector)}")
    say(f"{connector} is deleted" + (f": {left['detail']}" if isinstance(left, dict) else ""))


def _set_status(ctx: typer.Context, connector: str, wanted: str, *, as_json: bool) -> None:
    with connect(ctx) as client:
        client.patch(f"/v1/connectors/{path_segment(connector)}", {"status": wanted})
        found = client.get(f"/v1/connectors/{path_segment(connector)}/status")
    _print_status(found, as_json=as_json)


def _print_status(found: dict[str, Any], *, as_json: bool) -> None:
    """The connector a line a field, then a table of its tasks."""
    if as_json:
        print_json(found)
        return
    tasks = found["tasks"]
    print_fields({name: value for name, value in found.items() if name != "tasks"}, as_json=False)
    if tasks:
        columns: list[Column] = [("TASK", "id"), ("STATE", "state"), ("ERROR", "error")]
        print_rows(tasks, columns, as_json=False)
