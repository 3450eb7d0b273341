"""`python -m lily_local`: the stack's commands without the rest of the CLI, and those for developers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lily_local import commands, jars

app = typer.Typer(help="Lily's embedded stack.", no_args_is_help=True, pretty_exceptions_enable=False)
commands.register(app)


@app.command("jars")
@commands.plain_errors
def show_jars(name: Annotated[str, typer.Argument(help="A jar set, or `all`")]) -> None:
    """Fetch a jar set if need be and print its paths, comma-separated (`all`: each set's folder)."""
    if name != "all":
        typer.echo(jars.paths(name))
        return
    for set_name, paths in jars.ensure_all(jars.load()).items():
        typer.echo(f"{set_name}\t{paths[0].parent}")


@app.command("lock-jars")
def lock_jars(pom: Annotated[Path | None, typer.Option(help="Where the sets are declared")] = None) -> None:
    """Resolve infra/pom.xml again and write the lock."""
    from lily_local.jars import resolve

    for name, count in resolve.write_lock(pom or resolve.default_pom()).items():
        typer.echo(f"{name}\t{count} jars")


if __name__ == "__main__":
    app()
