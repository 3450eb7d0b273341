"""`lily tail`: the live stream of what becomes news."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer
from rich.markup import escape

from lily_cli.app import connect, examples
from lily_cli.client import Params
from lily_cli.output import out, say, short_time
from lily_cli.sse import Message, follow

_PATH = "/v1/stream"


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("lily tail", "lily tail --tag PII --json", "lily tail --count 1"))(tail)


def tail(
    ctx: typer.Context,
    *,
    types: Annotated[list[str] | None, typer.Option("--type", help="Only this event type; repeat.")] = None,
    tags: Annotated[list[str] | None, typer.Option("--tag", help="Only changes of this tag; repeat.")] = None,
    asset: Annotated[
        str | None, typer.Option(help="Only assets whose qualified name begins with this.")
    ] = None,
    last_event_id: Annotated[
        str | None, typer.Option("--last-event-id", help="Go on after this id, as printed with --json.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after this many.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON line per event, with the stream's id.")
    ] = False,
) -> None:
    """Print changes as they are told; a broken connection is resumed where it was."""
    params: Params = {"type": types or None, "tag": tags or None, "asset": asset}
    seen = 0
    with connect(ctx) as client:
        messages = follow(
            client,
            _PATH,
            params,
            last_event_id=last_event_id,
            on_break=lambda seconds: say(f"the connection ended; trying again in {seconds:g} s"),
        )
        for message in messages:
            event = _event(message)
            if event is None:
                continue
            if as_json:
                sys.stdout.write(json.dumps({"stream_id": message.id, **event}, ensure_ascii=False) + "\n")
                sys.stdout.flush()
            else:
                out().print(line(event), soft_wrap=True)
            seen += 1
            if seen == count:
                return


def _event(message: Message) -> dict[str, Any] | None:
    """The CloudEvent in a message; None for what is none, such as the stream's own notices."""
    try:
        event = json.loads(message.data)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "type" in event else None


def line(event: dict[str, Any]) -> str:
    """One event as one line of rich markup: when, what, on which asset, and the part that says most."""
    data = event.get("data") or {}
    what = str(event["type"]).removeprefix("lily.")
    telling = next(
        (
            str(data[name])
            for name in ("tag", "title", "incident_id", "owners", "terms", "description")
            if data.get(name)
        ),
        "",
    )
    when = short_time(str(event.get("time", "")))
    return (
        f"[dim]{escape(when)}[/dim] [cyan]{escape(what)}[/cyan] "
        f"{escape(str(event.get('subject', '')))} [bold]{escape(telling)}[/bold]"
    ).rstrip()
