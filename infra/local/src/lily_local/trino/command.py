"""`lily trino` as the CLI mounts it; light to import, the work is loaded when it is asked for."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from lily_local import config as configuration
from lily_local.commands import Home, plain_errors

_EXAMPLES = "[bold]Examples[/bold]\n\n  [cyan]lily trino publish cdc.shop.public.bills[/cyan]"
app = typer.Typer(no_args_is_help=True, help="The embedded stack's Trino.")


def register(main: typer.Typer) -> None:
    """Mount the commands on the CLI."""
    main.add_typer(app, name="trino")


@app.callback()
def _group() -> None:
    """The embedded stack's Trino: `lily up --with connect,trino` starts it."""


@app.command("publish", epilog=_EXAMPLES)
@plain_errors
def publish(
    tables: Annotated[list[str], typer.Argument(help="Captured tables: cdc.<source>.<schema>.<table>")],
    home: Home = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for a table's first rows")] = 120,
) -> None:
    """Make captured tables known to Trino, each with its view of the newest rows, `<table>_latest`."""
    from lily_local.trino.publishing import published

    out = Console(highlight=False)
    for named in published(configuration.remembered(configuration.home_folder(home)), tables, timeout):
        out.print(f"lake.{named.schema}.{named.table}  lake.{named.schema}.{named.table}_latest")


@app.command(
    "query", epilog="[bold]Examples[/bold]\n\n  [cyan]lily trino query --user ann 'SHOW SCHEMAS'[/cyan]"
)
@plain_errors
def query(
    statement: Annotated[str, typer.Argument(help="One SQL statement")],
    user: Annotated[str, typer.Option(help="Who asks")] = "ann",
    home: Home = None,
) -> None:
    """Ask the embedded Trino as some user, and print the rows."""
    from trino.exceptions import Error

    from lily_local.trino.asking import ask

    config = configuration.remembered(configuration.home_folder(home))
    out = Console(highlight=False, soft_wrap=True)
    try:
        for row in ask(config.port("trino"), user, statement):
            out.print("\t".join("NULL" if value is None else str(value) for value in row), markup=False)
    except Error as refused:
        from lily_local.errors import UserError

        raise UserError(str(getattr(refused, "message", refused))) from None
