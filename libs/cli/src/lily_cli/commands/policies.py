"""`lily policies`: what tags mean for those who read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from lily_cli.app import connect, examples, group
from lily_cli.client import path_segment
from lily_cli.declarations import declare
from lily_cli.output import Column, JsonFlag, print_fields, print_json, print_rows, say

app = group("Policies: apply, list, show, delete, decide.")
_POLICIES: Final = "/v1/policies"
NameArgument = Annotated[str, typer.Argument(help="The policy's name.")]
Row = dict[str, Any]


@app.command(epilog=examples("lily policies apply mask-personal-data.yaml"))
def apply(
    ctx: typer.Context,
    files: Annotated[
        list[Path], typer.Argument(help="Policies, YAML or JSON; the file's name names the policy.")
    ],
    as_json: JsonFlag = False,
) -> None:
    """Declare policies, or change them."""
    with connect(ctx) as client:
        made = declare(client, _POLICIES, files)
    if as_json:
        print_json(made)


@app.command("list", epilog=examples("lily policies list"))
def list_policies(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List the policies."""
    columns: list[Column] = [
        ("POLICY", "name"),
        ("TAGS", lambda row: ", ".join(row["policy"]["tags"])),
        ("ACTION", lambda row: _action(row["policy"])),
        ("TO", lambda row: _who(row["policy"]["to"]) or "everyone"),
        ("UNLESS", lambda row: _who(row["policy"]["unless"])),
        ("PRECEDENCE", lambda row: row["policy"]["precedence"]),
        ("MODE", lambda row: row["policy"]["mode"] if row["policy"]["enabled"] else "disabled"),
        ("VERSION", "version"),
    ]
    with connect(ctx) as client:
        print_rows(client.pages(_POLICIES), columns, as_json=as_json, empty="no policies")


@app.command(epilog=examples("lily policies show mask-personal-data"))
def show(ctx: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    """Show a policy."""
    with connect(ctx) as client:
        print_fields(client.get(f"{_POLICIES}/{path_segment(name)}"), as_json=as_json)


@app.command(epilog=examples("lily policies delete mask-personal-data"))
def delete(ctx: typer.Context, name: NameArgument) -> None:
    """Delete a policy."""
    with connect(ctx) as client:
        client.delete(f"{_POLICIES}/{path_segment(name)}")
    say(f"{name} is deleted")


@app.command(
    epilog=examples("lily policies decide postgres://shop-db:5432/shop/public/customers/email --user ann")
)
def decide(
    ctx: typer.Context,
    *,
    asset: Annotated[str, typer.Argument(metavar="QUALIFIED_NAME", help="What is read.")],
    user: Annotated[str, typer.Option(help="Who reads.")],
    group_name: Annotated[list[str] | None, typer.Option("--group", help="A group of theirs.")] = None,
    role: Annotated[list[str] | None, typer.Option(help="A role of theirs.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what someone may see, and why."""
    body = {"qualified_name": asset, "user": user, "groups": group_name or [], "roles": role or []}
    with connect(ctx) as client:
        told = client.post(f"{_POLICIES}/decide", body)
    if as_json:
        print_json(told)
        return
    say(_action(told))
    for condition in told["filters"]:
        say(f"  rows: {condition}")
    for reason in told["reasons"]:
        decisive = " (decides)" if reason["decisive"] else ""
        say(f"  {reason['policy']}: {reason['action']}, as it is tagged {reason['tag']}{decisive}")
    for reason in told["would"]:
        say(f"  {reason['policy']}: would {reason['action']}, in dry run")
    if not told["tags"]:
        say("  no tags")


def _action(told: Row) -> str:
    return f"mask {told['mask']['kind']}" if told.get("mask") else str(told["action"])


def _who(principals: Row) -> str:
    return ", ".join(f"{kind[:-1]} {name}" for kind, names in principals.items() for name in names)
