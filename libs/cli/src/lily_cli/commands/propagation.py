"""`lily propagation`: rules by which tags and properties travel, and what a change would do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from lily_cli.app import connect, examples, group
from lily_cli.declarations import Declared, mount
from lily_cli.errors import UsageError
from lily_cli.output import Column, JsonFlag, out, print_json, say, table

_SHOWN = 50
Row = dict[str, Any]


def _what(rule: Row) -> str:
    return ", ".join(rule["classifications"] or []) or f"the property {rule['property']}"


app = group("Propagation: apply, list, show, delete, preview.")
mount(
    app,
    Declared(
        group="propagation",
        path="/v1/propagation/rules",
        noun="rule",
        example="personal-data",
        columns=[
            ("RULE", "name"),
            ("WHAT", lambda row: _what(row["rule"])),
            ("ALONG", lambda row: ", ".join(row["rule"]["along"])),
            ("DEPTH", lambda row: row["rule"]["max_depth"]),
            ("STOPS AT", lambda row: ", ".join(row["rule"]["stop_at"])),
            ("ENABLED", lambda row: row["rule"]["enabled"]),
            ("VERSION", "version"),
        ],
        applied="What follows is told at once; what a rule caused no longer is taken back.",
        deleted="Everything that it caused is taken back.",
    ),
)


@app.command(
    epilog=examples(
        "lily propagation preview --attach PII=postgres://shop/shop/public/customers/email",
        "lily propagation preview --rule personal-data.yaml",
    )
)
def preview(
    ctx: typer.Context,
    *,
    attach: Annotated[list[str] | None, typer.Option(help="TAG=ASSET: suppose the tag attached.")] = None,
    detach: Annotated[list[str] | None, typer.Option(help="TAG=ASSET: suppose it detached.")] = None,
    add_edge: Annotated[
        list[str] | None, typer.Option(help="UPSTREAM,DOWNSTREAM: suppose such lineage.")
    ] = None,
    remove_edge: Annotated[
        list[str] | None, typer.Option(help="UPSTREAM,DOWNSTREAM: suppose it gone.")
    ] = None,
    rule: Annotated[Path | None, typer.Option(help="A rule, YAML or JSON: suppose it declared.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what a change would do before it is made."""
    changes = [_tag("attached", text) for text in attach or []]
    changes += [_tag("detached", text) for text in detach or []]
    changes += [_edge("added", text) for text in add_edge or []]
    changes += [_edge("removed", text) for text in remove_edge or []]
    with connect(ctx) as client:
        told = client.post(
            "/v1/propagation/preview", {"changes": changes, "rule": _rule(rule) if rule else None}
        )
    if as_json:
        print_json(told)
        return
    say(f"{told['attached']} attached, {told['detached']} detached, on {told['assets']} assets")
    columns: list[Column] = [
        ("ASSET", "qualified_name"),
        ("WHAT", "operation"),
        ("TAG", "tag"),
        ("RULE", "rule"),
        ("ORIGIN", "origin"),
        ("DEPTH", lambda row: len(row["path"]) - 1 if row["path"] else None),
    ]
    if told["changes"]:
        out().print(table(told["changes"][:_SHOWN], columns))


def _tag(operation: str, text: str) -> Row:
    tag, equals, asset = text.partition("=")
    if not (tag and equals and asset):
        raise UsageError(f"TAG=ASSET is wanted, not {text!r}")
    return {"type": f"lily.classification.{operation}", "data": {"qualified_name": asset, "tag": tag}}


def _edge(operation: str, text: str) -> Row:
    upstream, comma, downstream = text.partition(",")
    if not (upstream and comma and downstream):
        raise UsageError(f"UPSTREAM,DOWNSTREAM is wanted, not {text!r}")
    data = {"upstream": upstream, "downstream": downstream}
    return {"type": f"lily.lineage.edge.{operation}", "data": data}


def _rule(file: Path) -> Row:
    try:
        rule = yaml.safe_load(file.read_text())
    except (OSError, ValueError, yaml.YAMLError) as broken:
        raise UsageError(f"cannot read {file}: {broken}") from None
    if not isinstance(rule, dict):
        raise UsageError(f"{file} is no rule: an object is wanted")
    return {"name": file.stem, **rule}
