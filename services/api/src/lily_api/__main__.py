"""`python -m lily_api serve | migrate | openapi`."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from typing import Annotated

import typer
import uvicorn
from sqlalchemy.exc import OperationalError

from lily_common import logs
from lily_common.config import settings

cli = typer.Typer(add_completion=False, no_args_is_help=True, help="Lily's HTTP API.")


@cli.command()
def serve(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on")] = 8080,
    workers: Annotated[int, typer.Option(min=1, help="Processes")] = 1,
    limit_concurrency: Annotated[
        int | None,
        typer.Option(min=1, help="Requests at once per process, above it 503 [LILY_MAX_CONCURRENCY]"),
    ] = None,
    migrate_first: Annotated[
        bool, typer.Option("--migrate/--no-migrate", help="Bring the database up to date")
    ] = True,
    grace: Annotated[int, typer.Option(help="Seconds that open requests have at the end")] = 10,
) -> None:
    """Answer HTTP until SIGTERM; then finish what is open and stop."""
    if limit_concurrency is not None:
        os.environ["LILY_MAX_CONCURRENCY"] = str(limit_concurrency)  # read by every worker
    from lily_api.server import ProblemProtocol

    _configure()
    if migrate_first:
        _migrate("head")
    # uvicorn raises the signal again once it has stopped; a stop that was asked for is a success.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    uvicorn.run(
        "lily_api.app:create_app",
        factory=True,
        host=host,
        port=port,
        workers=workers,
        loop="uvloop",
        http=ProblemProtocol,
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=grace,
    )


@cli.command()
def migrate(revision: Annotated[str, typer.Argument(help="Alembic revision")] = "head") -> None:
    """Bring the database up to date."""
    _configure()
    _migrate(revision)


@cli.command()
def openapi() -> None:
    """Print the OpenAPI document; needs no server."""
    from lily_api.app import create_app

    sys.stdout.write(json.dumps(create_app().openapi(), indent=2, sort_keys=True) + "\n")


def _configure() -> None:
    logs.configure("api", settings().log_level)
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)


def _migrate(revision: str) -> None:
    from lily_api.migrations.run import upgrade

    try:
        upgrade(settings(), revision)
    except OperationalError as error:
        sys.stderr.write(f"PostgreSQL (POSTGRES_URI) does not answer: {error.orig}\n")
        raise typer.Exit(1) from None


if __name__ == "__main__":
    cli()
