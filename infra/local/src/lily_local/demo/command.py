"""`lily demo` as the CLI mounts it; light to import, the run itself is loaded when it is asked for."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from lily_local.errors import UserError

_EXAMPLES = "[bold]Examples[/bold]\n\n  [cyan]lily demo[/cyan]\n\n  [cyan]lily demo --keep[/cyan]"


def register(app: typer.Typer) -> None:
    """Mount the command on the CLI."""
    app.command(epilog=_EXAMPLES)(demo)
    app.command("demo-enforce", epilog="[bold]Examples[/bold]\n\n  [cyan]lily demo-enforce[/cyan]")(
        demo_enforce
    )


Keep = Annotated[bool, typer.Option("--keep", help="Leave the stack running, to look around.")]


def demo(
    keep: Keep = False,
) -> None:
    """Run the main job on real input: Spark lineage, a catalogue, an incident, a tag that two receivers get.

    Starts the embedded stack if it is not up, and stops it at the end if it did. Ends with the line `demo: ok` and the
    figures as one line of JSON, or with the step that failed and exit code 1.
    """
    from lily_local.demo.run import run

    _end(run, keep=keep)


def demo_enforce(keep: Keep = False) -> None:
    """Tag a column, and see the next query of a real Trino obey; the same by lineage; then take the tag away.

    Starts the embedded stack with Kafka Connect and Trino if it is not up, and stops it at the end if it did. Trino needs a
    Java 24 or later (LILY_TRINO_JAVA_HOME) and is fetched once (821 MB).
    """
    from lily_local.demo.enforce import run

    _end(run, keep=keep)


def _end(run: Callable[..., dict[str, Any]], *, keep: bool) -> None:
    """Run it, and print how it ended."""
    from lily_cli.errors import CliError
    from lily_local.demo.checks import DemoError

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    try:
        figures = run(console, keep=keep)
    except (DemoError, UserError, CliError) as error:
        failed = Console(stderr=True, highlight=False)
        failed.print(f"[bold red]demo failed:[/] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(1) from None
    sys.stdout.write("demo: ok\n" + json.dumps(figures) + "\n")
