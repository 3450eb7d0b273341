"""`lily policies`: what tags mean for those who read."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from lily_cli.app import connect, examples, group
from lily_cli.declarations import Declared, mount
from lily_cli.output import JsonFlag, print_json, say

_POLICIES: Final = "/v1/policies"
Row = dict[str, Any]


def _action(told: Row) -> str:
    return f"mask {told['mask']['kind']}" if told.get("mask") else str(told["action"])


def _who(principals: Row) -> str:
    return ", ".join(f"{kind[:-1]} {name}" for kind, names in principals.items() for name in names)


app = group("Policies: apply, list, show, delete, decide.")
mount(
    app,
    Declared(
        group="policies",
        path=_POLICIES,
        noun="policy",
        example="mask-personal-data",
        columns=[
            ("POLICY", "name"),
            ("TAGS", lambda row: ", ".join(row["policy"]["tags"])),
            ("ACTION", lambda row: _action(row["policy"])),
            ("TO", lambda row: _who(row["policy"]["to"]) or "everyone"),
            ("UNLESS", lambda row: _who(row["policy"]["unless"])),
            ("PRECEDENCE", lambda row: row["policy"]["precedence"]),
            ("MODE", lambda row: row["policy"]["mode"] if row["policy"]["enabled"] else "disabled"),
            ("VERSION", "version"),
        ],
    ),
)


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
