"""`lily demo` as the CLI mounts it; light to import, the run itself is loaded when it is asked for."""

from __future__ import annotations

import json
import signal
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from lily_local.errors import UserError

_EXAMPLES = "[bold]Examples[/bold]\n\n  [cyan]lily demo[/cyan]\n\n  [cyan]lily demo --keep[/cyan]"


def register(app: typer.Typer) -> None:
    """Mount the command on the CLI."""
    app.command(epilog=_EXAMPLES)(demo)


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack running, to look around.")] = False,
) -> None:
    """Run the main job on real input: Spark lineage, a catalogue, an incident, a tag that two receivers get.

    Starts the embedded stack if it is not up, and stops it at the end if it did. Ends with the line `demo: ok` and the
    figures as one line of JSON, or with the step that failed and exit code 1.
    """
    from lily_cli.errors import CliError
    from lily_local.demo.checks import DemoError
    from lily_local.demo.run import run

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    try:
        figures = run(console, keep=keep)
    except (DemoError, UserError, CliError) as error:
        failed = Console(stderr=True, highlight=False)
        failed.print(f"[bold red]demo failed:[/] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(1) from None
    sys.stdout.write("demo: ok\n" + json.dumps(figures) + "\n")
