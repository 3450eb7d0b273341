"""`python -m lily_spark fanout | lake`: one application in the foreground, until SIGTERM; `view`: the SQL of a table."""

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


@cli.command()
def view(path: str, dialect: str, name: str = "") -> None:
    """Print the SQL of a captured table's latest rows: PATH in the lake, DIALECT duckdb, trino or spark."""
    from lily_spark.cdc.registry import stored
    from lily_spark.cdc.views import DIALECTS, latest_sql

    if dialect not in DIALECTS:
        raise typer.BadParameter(f"one of {', '.join(DIALECTS)}", param_hint="DIALECT")
    table = stored(path, spark_settings())
    if table is None:
        raise typer.BadParameter("no such table", param_hint="PATH")
    typer.echo(
        latest_sql(name or path.rpartition(".")[2], table.table.schema, table.hashed, DIALECTS[dialect])
    )


def _settings(service: str) -> SparkSettings:
    settings = spark_settings()
    logs.configure(service, settings.log_level)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it reports every callback, and failures twice
    return settings


if __name__ == "__main__":
    cli()
