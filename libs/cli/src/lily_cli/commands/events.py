"""`lily events`: send CloudEvents from a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lily_cli.app import connect, examples, group
from lily_cli.errors import CliError, UsageError
from lily_cli.events import read
from lily_cli.output import err, fail_line, print_json, say

app = group("Events: send.")
_SHOWN = 20


@app.command(
    epilog=examples(
        "lily events send changes.ndjson",
        "generate-changes | lily events send -",
        "lily events send one.json --json",
    )
)
def send(
    ctx: typer.Context,
    *,
    file: Annotated[str, typer.Argument(help="JSON (an event or an array), or an event a line; - is stdin.")],
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Events per request.")] = 500,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict of every event.")] = False,
) -> None:
    """Send events. Exits with 1 when any was rejected; the good ones are accepted all the same."""
    listed = read(_text(file))
    if not listed:
        raise UsageError(f"{file}: no events in it")
    accepted, rejected = 0, []
    verdicts = []
    with connect(ctx) as client, err().status("sending") as status:
        for start in range(0, len(listed), batch):
            answer = client.send_events(listed[start : start + batch])
            for item in answer["items"]:
                verdict = item | {"index": item["index"] + start}
                verdicts.append(verdict)
                if item["status"] == "accepted":
                    accepted += 1
                else:
                    rejected.append(verdict)
            status.update(f"sent {min(start + batch, len(listed))} of {len(listed)}")
    if as_json:
        print_json({"accepted": accepted, "rejected": len(rejected), "items": verdicts})
    else:
        say(f"{accepted} accepted, {len(rejected)} rejected")
        for verdict in rejected[:_SHOWN]:
            fail_line(
                f"event {verdict['index']} ({verdict['id']}): {(verdict.get('problem') or {}).get('detail')}"
            )
    if rejected:
        raise typer.Exit(CliError("").exit_code)


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as missing:
        raise UsageError(f"cannot read {file}: {missing.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text") from None
