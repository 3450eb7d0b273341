"""`python -m lily_spark fanout | lake`: one application in the foreground, until SIGTERM."""

from __future__ import annotations

import logging

import typer

from lily_common import logs
from lily_spark.config import SparkSettings, spark_settings

cli = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@cli.command()
def fanout() -> None:
    """Carry changes worth telling from lily.changes.priority to lily.notices (Real-Time Mode, hedged pair)."""
    from lily_spark.jobs.fanout import main

    raise typer.Exit(main(_settings("fanout")))


@cli.command()
def lake() -> None:
    """Own the Delta tables: bronze, silver, the MongoDB mirror, upkeep and commands."""
    from lily_spark.jobs.lake import main

    raise typer.Exit(main(_settings("lake")))


def _settings(service: str) -> SparkSettings:
    settings = spark_settings()
    logs.configure(service, settings.log_level)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it reports every callback, and failures twice
    return settings


if __name__ == "__main__":
    cli()
