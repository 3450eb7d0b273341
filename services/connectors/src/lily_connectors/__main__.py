"""`python -m lily_connectors egress | harvest`."""

from __future__ import annotations

import os
import sys

import typer

from lily_common import logs
from lily_common.config import settings
from lily_connectors import harvesting

cli = typer.Typer(add_completion=False, no_args_is_help=True, help="Lily's connectors.")

cli.add_typer(harvesting.app, name="harvest")


@cli.callback()
def _main() -> None:
    """Commands of the connectors."""


@cli.command()
def egress() -> None:
    """Deliver what `lily.notices` tells to its subscribers, until SIGTERM."""
    # libuv looks names up in four threads unless told otherwise: four receivers with slow name servers would stop all.
    os.environ.setdefault("UV_THREADPOOL_SIZE", "64")
    import uvloop

    from lily_connectors.egress.worker import serve

    chosen = settings()
    logs.configure("egress", chosen.log_level)
    log = logs.get_logger("lily_connectors.egress")
    try:
        uvloop.run(serve(chosen))
    except Exception:
        log.exception("the egress worker failed")
        sys.exit(1)
    log.info("stopped")


if __name__ == "__main__":
    cli()
