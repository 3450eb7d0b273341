"""The `harvest` commands: `python -m lily_connectors harvest …`, and `lily harvest …` of the CLI."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import httpx
import psycopg
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lily_connectors.sender import RefusedError, Sender, Sent
from lily_connectors.vendors.postgres_catalog.config import Config
from lily_connectors.vendors.postgres_catalog.harvest import Progress as Report
from lily_connectors.vendors.postgres_catalog.harvest import harvest

app = typer.Typer(no_args_is_help=True, help="Harvest the catalogue of a system: postgres.")


@app.callback()
def _main() -> None:
    """Harvest the catalogue of a system and send it as events."""


@app.command()
def postgres(
    *,
    dsn: Annotated[
        str,
        typer.Option(envvar="LILY_HARVEST_DSN", help="Connection, e.g. postgresql://reader@host:5432/shop"),
    ],
    url: Annotated[str, typer.Option(envvar="LILY_URL", help="Lily's API")] = "http://127.0.0.1:7700",
    api_key: Annotated[str, typer.Option(envvar="LILY_API_KEY", help="A key with events:write")],
    namespace: Annotated[
        str | None, typer.Option(help="OpenLineage namespace of the server; default postgres://host:port")
    ] = None,
    schema: Annotated[list[str] | None, typer.Option(help="Only this schema (repeatable)")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Leave out this schema (repeatable)")] = None,
) -> None:
    """Send databases, schemas, tables, views and columns of a PostgreSQL database."""
    try:
        config = Config(namespace=namespace, schemas=schema or [], exclude=exclude or [])
        with Sender(url, api_key) as sender, _progress() as report:
            sent = harvest(dsn, config, sender, report)
    except ValidationError as invalid:
        _fail(f"{invalid.errors()[0]['loc'][0]}: {invalid.errors()[0]['msg']}")
    except psycopg.Error as error:
        _fail(f"the database cannot be read: {error}")
    except RefusedError as error:
        _fail(str(error))
    except httpx.HTTPError as error:
        _fail(f"Lily at {url} does not answer: {error}")
    _tell(sent)


@contextmanager
def _progress() -> Iterator[Report | None]:
    """A bar where somebody is looking, else nothing."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("harvesting"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("harvest", total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=max(done, total))

        yield report


def _tell(sent: Sent) -> None:
    typer.echo(f"{sent.accepted} accepted, {sent.rejected} rejected")
    for event, reason in sent.problems:
        typer.echo(f"rejected: {event['data'].get('qualified_name', event['id'])}: {reason}", err=True)
    if sent.rejected:
        raise typer.Exit(1)


def _fail(text: str) -> None:
    typer.echo(text.strip(), err=True)
    sys.exit(1)
