"""`lily tables`: incremental tables, declared in YAML and refreshed by what has changed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from lily_cli.app import connect, examples, group
from lily_cli.client import LilyClient, path_segment
from lily_cli.declarations import declare
from lily_cli.durations import parse_duration
from lily_cli.errors import CliError
from lily_cli.output import Column, JsonFlag, err, out, print_fields, print_json, print_rows, say, table

app = group("Incremental tables: apply, list, show, rows, plan, refresh, check, explain, delete.")
_OVER: Final = ("succeeded", "failed")
_POLL_SECONDS = 0.3
_SHOWN = 20
NameArgument = Annotated[str, typer.Argument(help="The table's name.")]
WaitOption = Annotated[str, typer.Option(help="How long to wait for the lake job, e.g. 5m.")]
Row = dict[str, Any]


@app.command(epilog=examples("lily tables apply bills_extended.yaml", "lily tables apply tables/*.yaml"))
def apply(
    ctx: typer.Context,
    files: Annotated[
        list[Path], typer.Argument(help="Declarations, YAML or JSON; the file's name names the table.")
    ],
    as_json: JsonFlag = False,
) -> None:
    """Declare tables, or change their declarations. The lake job builds them within their interval."""
    with connect(ctx) as client:
        made = declare(client, "/v1/tables", files)
    if as_json:
        print_json(made)


@app.command("list", epilog=examples("lily tables list"))
def list_tables(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List the tables, the built-in ones first, with their last refresh."""
    columns: list[Column] = [
        ("TABLE", "name"),
        ("FACT", lambda row: row["declaration"]["fact"]["source"]),
        ("DIMENSIONS", lambda row: len(row["declaration"]["dimensions"])),
        ("EVERY", lambda row: _span(row["declaration"]["interval"])),
        ("REFRESHED", lambda row: (row.get("last_refresh") or {}).get("at")),
        ("STATUS", lambda row: (row.get("last_refresh") or {}).get("status", "waiting")),
        ("HOW", lambda row: _how((row.get("last_refresh") or {}).get("detail", {}))),
    ]
    with connect(ctx) as client:
        print_rows(client.pages("/v1/tables"), columns, as_json=as_json, empty="no tables")


@app.command(epilog=examples("lily tables show bills_extended"))
def show(ctx: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    """Show a table's declaration and its last refresh."""
    with connect(ctx) as client:
        print_fields(client.get(f"/v1/tables/{path_segment(name)}"), as_json=as_json)


@app.command(
    epilog=examples(
        "lily tables rows bills_extended --limit 20",
        "lily tables rows bills_extended --as-of 2026-01-15T18:00:00Z --json",
    )
)
def rows(
    ctx: typer.Context,
    name: NameArgument,
    limit: Annotated[int, typer.Option(min=1, help="At most so many rows.")] = 100,
    as_of: Annotated[str | None, typer.Option("--as-of", help="Time (RFC 3339): as it stood then.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show a table's rows in the order of its key, now or as they stood at a time."""
    with connect(ctx) as client:
        path = f"/v1/tables/{path_segment(name)}/rows"
        found = list(client.pages(path, {"as_of": as_of}, limit=limit))
    columns: list[Column] = [(column, column) for column in (found[0] if found else {})]
    print_rows(found, columns, as_json=as_json, empty="no rows")


@app.command(epilog=examples("lily tables plan bills_extended"))
def plan(ctx: typer.Context, name: NameArgument, wait: WaitOption = "10m", as_json: JsonFlag = False) -> None:
    """Show what the next refresh would do: which sources have changed, how many facts that touches."""
    told = _order(ctx, "plan_table", {"table": name}, wait)
    if as_json:
        print_json(told)
        return
    say(f"{name}: {told['would']}" + (f", as {told['reason']}" if told.get("reason") else ""))
    columns: list[Column] = [
        ("SOURCE", "source"),
        ("TABLE", "table"),
        ("INCLUDED", "included"),
        ("PROCESSED", "processed"),
        ("NOW", "now"),
        ("CHANGES", "changes"),
        ("FACTS", "facts"),
    ]
    out().print(table(told.get("sources", []), columns))


@app.command(
    epilog=examples("lily tables refresh bills_extended", "lily tables refresh bills_extended --full")
)
def refresh(
    ctx: typer.Context,
    *,
    name: NameArgument,
    full: Annotated[bool, typer.Option("--full", help="Compute every row, compare and repair.")] = False,
    wait: WaitOption = "1h",
    as_json: JsonFlag = False,
) -> None:
    """Bring a table up to date now."""
    _print_refresh(name, _order(ctx, "refresh_table", {"table": name, "full": full}, wait), as_json=as_json)


@app.command(
    epilog=examples("lily tables check bills_extended", "lily tables check bills_extended --no-repair")
)
def check(
    ctx: typer.Context,
    *,
    name: NameArgument,
    repair: Annotated[bool, typer.Option(help="Put right what differs.")] = True,
    wait: WaitOption = "1h",
    as_json: JsonFlag = False,
) -> None:
    """Compare a table with a computation of every row; exits with 1 when rows differed and are not repaired."""
    told = _order(ctx, "check_table", {"table": name, "repair": repair}, wait)
    _print_refresh(name, told, as_json=as_json)
    if told.get("drift") and not told.get("repaired"):
        raise CliError(f"{told['drift']} rows of {name} are not as they should be")


@app.command(epilog=examples("lily tables explain bills_extended"))
def explain(
    ctx: typer.Context, name: NameArgument, wait: WaitOption = "10m", as_json: JsonFlag = False
) -> None:
    """Show how a table is made, how fast its sources move, and which dimensions are worth following."""
    told = _order(ctx, "explain_table", {"table": name}, wait)
    if as_json:
        print_json(told)
        return
    columns: list[Column] = [
        ("SOURCE", "source"),
        ("TABLE", "table"),
        ("JOIN", "join"),
        ("ROWS/H", "rows_per_hour"),
        ("FACTS/H", "facts_per_hour"),
        ("INCLUDED", "included"),
        ("STALE BY FULL REFRESH", lambda row: _share(row.get("stale_by_full_refresh"))),
        ("ADVICE", "advice"),
    ]
    out().print(table(told.get("sources", []), columns))
    made = [{"column": column, "is": text} for column, text in told.get("select", {}).items()]
    made += [{"column": column, "is": text} for column, text in told.get("aggregates", {}).items()]
    out().print(table(made, [("COLUMN", "column"), ("IS", "is")]))


@app.command(epilog=examples("lily tables delete bills_extended"))
def delete(ctx: typer.Context, name: NameArgument) -> None:
    """Forget a declaration; the lake job removes the table's rows. Its sources stay."""
    with connect(ctx) as client:
        client.delete(f"/v1/tables/{path_segment(name)}")
    say(f"{name} is deleted")


def _order(ctx: typer.Context, command: str, args: Row, wait: str) -> Row:
    """What the lake job says of the command once it has succeeded. Raises CliError otherwise."""
    deadline = time.monotonic() + parse_duration(wait, "--wait").total_seconds()
    with connect(ctx) as client:
        given: Row = client.post("/v1/commands", {"command": command, "args": args})
        with err().status(f"{args['table']}: waiting for the lake job") as spinner:
            while given["status"] not in _OVER and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
                given = _again(client, given)
                spinner.update(f"{args['table']}: {given['status']}")
    if given["status"] == "failed":
        raise CliError(str(given["detail"]))
    if given["status"] != "succeeded":
        raise CliError(f"{given['id']} is {given['status']} still; see `lily commands show {given['id']}`")
    return dict(given["detail"] or {})


def _again(client: LilyClient, given: Row) -> Row:
    found: Row = client.get(f"/v1/commands/{path_segment(given['id'])}")
    return found


def _print_refresh(name: str, told: Row, *, as_json: bool) -> None:
    if as_json:
        print_json(told)
        return
    shown = {key: value for key, value in told.items() if key != "examples"}
    print_fields({"table": name} | shown, as_json=False)
    rows = told.get("examples") or []
    if rows:
        columns: list[Column] = [("KEY", "key"), ("WHAT", "kind"), ("COLUMNS", "columns")]
        out().print(table(rows[:_SHOWN], columns, title=f"{len(rows)} of the rows that differed"))


def _how(detail: Row) -> str | None:
    if "error" in detail:
        return str(detail["error"])[:120]
    figures = [
        f"{detail[key]} {key}" for key in ("facts", "upserted", "removed", "repaired") if key in detail
    ]
    seconds = [f"{detail['seconds']} s"] if "seconds" in detail else []
    return ", ".join([*([str(detail["mode"])] if "mode" in detail else []), *figures, *seconds]) or None


def _span(seconds: int) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _share(value: float | None) -> str | None:
    return None if value is None else f"{100 * value:.1f} %"
