"""`lily erase` and `lily erasures`: what has to be gone for good, and how far that is."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer

from lily_cli.app import connect, examples, group
from lily_cli.client import LilyClient, path_segment
from lily_cli.durations import parse_duration
from lily_cli.errors import CliError, UsageError
from lily_cli.output import Column, JsonFlag, out, print_fields, print_json, print_rows, say, table

app = group("Erasures: list, show, report. `lily erase` asks for one.")
_COLUMNS: list[Column] = [
    ("ID", "id"),
    ("KIND", "kind"),
    ("STATUS", "status"),
    ("APPLIED", "applied_at"),
    ("GONE FROM KAFKA BY", "gone_from_kafka_by"),
    ("COMPLETED", "completed_at"),
]
_REMOVED: list[Column] = [("STORE", "store"), ("ROWS", "rows"), ("FILES", "files")]
_POLL_SECONDS = 1.0
_OVER: Final = ("applied", "completed", "failed")
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Erasure id.")]
Row = dict[str, Any]


def register(root: typer.Typer) -> None:
    root.command(
        "erase",
        epilog=examples(
            "lily erase --person jane.doe@example.com",
            "lily erase --asset postgres://shop-db:5432/shop/public/customers --descendants",
            "lily --tenant acme erase --whole-tenant acme",
        ),
    )(erase)


def erase(
    ctx: typer.Context,
    *,
    asset: Annotated[str | None, typer.Option(help="Qualified name of an asset.")] = None,
    descendants: Annotated[
        bool, typer.Option("--descendants", help="What is below the asset in its name, too.")
    ] = False,
    person: Annotated[str | None, typer.Option(help="A person's identifier, e.g. an address.")] = None,
    whole_tenant: Annotated[str | None, typer.Option(help="Id of the tenant: all that it has.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    wait: Annotated[str | None, typer.Option(help="Wait at most this long until it is applied.")] = "10m",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return when it is accepted.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Erase an asset, a person or a tenant for good, and show what was removed."""
    given = {"asset": asset, "person": person, "tenant": whole_tenant}
    chosen = {name: value for name, value in given.items() if value is not None}
    if len(chosen) != 1:
        raise UsageError("give exactly one of --asset, --person and --whole-tenant")
    ((kind, subject),) = chosen.items()
    if not yes:
        typer.confirm(f"Erase the {kind} {subject}? This cannot be taken back", abort=True, err=True)
    body: Row = dict(chosen)
    if descendants:
        body["descendants"] = True
    if whole_tenant is not None:
        body["confirm"] = whole_tenant
    seconds = 0.0 if no_wait or not wait else parse_duration(wait, "--wait").total_seconds()
    with connect(ctx) as client:
        outcome = _outcome(client, client.post("/v1/erasures", body), seconds)
    _show(outcome, as_json=as_json)
    if seconds and outcome["status"] not in ("applied", "completed"):
        raise CliError(f"{outcome['id']} is {outcome['status']}")


@app.command("list", epilog=examples("lily erasures list"))
def list_erasures(
    ctx: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    """List the tenant's erasures, newest first."""
    with connect(ctx) as client:
        rows = client.pages("/v1/erasures", limit=limit)
        print_rows(rows, _COLUMNS, as_json=as_json, empty="no erasures")


@app.command(epilog=examples("lily erasures show ers_0f3a5c7e9b1d2f4a6c8e0b2d"))
def show(ctx: typer.Context, erasure: IdArgument, as_json: JsonFlag = False) -> None:
    """Show one erasure and what was removed, by store."""
    with connect(ctx) as client:
        _show(client.get(f"/v1/erasures/{path_segment(erasure)}"), as_json=as_json)


@app.command(epilog=examples("lily erasures report ers_0f3a5c7e9b1d2f4a6c8e0b2d > report.jws"))
def report(
    ctx: typer.Context,
    erasure: IdArgument,
    as_json: Annotated[bool, typer.Option("--json", help="The claims beside the signed text.")] = False,
) -> None:
    """Print the signed report, a compact JWS."""
    with connect(ctx) as client:
        found: Row = client.get(f"/v1/erasures/{path_segment(erasure)}/report")
    if as_json:
        print_json(found)
    else:
        typer.echo(found["jws"])


def _show(erasure: Row, *, as_json: bool) -> None:
    if as_json:
        print_json(erasure)
        return
    print_fields({name: value for name, value in erasure.items() if name != "removed"}, as_json=False)
    rows = [{"store": store, **counts} for store, counts in erasure["removed"].items()]
    if rows:
        out().print(table(rows, _REMOVED))


def _outcome(client: LilyClient, given: Row, seconds: float) -> Row:
    """The erasure once it is applied, or as it stands when the time is over."""
    deadline = time.monotonic() + seconds
    if seconds:
        say(f"{given['id']} is accepted: what arrives of it is stopped from now on")
    while given["status"] not in _OVER and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        given = client.get(f"/v1/erasures/{path_segment(given['id'])}")
    return given
