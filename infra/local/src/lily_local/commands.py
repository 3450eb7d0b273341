"""The commands `lily up | down | status | logs`, mounted by the CLI through `register`."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape

from lily_local import config as configuration
from lily_local import control, memory, state, tenant, view
from lily_local.components.registry import DEFAULT, OPTIONAL, select
from lily_local.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")

_out = Console(highlight=False)
_errors = Console(stderr=True, highlight=False)

Home = Annotated[
    Path | None,
    typer.Option("--home", help="The stack's folder [env LILY_HOME; default .lily]", show_default=False),
]


def plain_errors(command: Callable[P, R]) -> Callable[P, R]:
    """A UserError, or a file that cannot be read or written, becomes one message on stderr and exit code 1."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (UserError, OSError) as error:
            _errors.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
            sys.exit(1)

    return wrapped


def register(app: typer.Typer) -> None:
    """Mount the stack's commands on the CLI."""
    app.command("up")(up)
    app.command("down")(down)
    app.command("status")(status)
    app.command("logs")(logs)


@plain_errors
def up(
    home: Home = None,
    only: Annotated[str | None, typer.Option(help="Just these components, comma-separated")] = None,
    extra: Annotated[
        str | None, typer.Option("--with", help=f"Beside the others, comma-separated: {', '.join(OPTIONAL)}")
    ] = None,
    port_base: Annotated[
        int | None,
        typer.Option(help=f"First of the stack's ports [env LILY_PORT_BASE; {configuration.DEFAULT_BASE}]"),
    ] = None,
    port: Annotated[
        list[str] | None, typer.Option(help="One port by name, e.g. kafka=9092; repeatable")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for readiness")] = 300,
) -> None:
    """Start the embedded stack and leave it running; starts only what is missing."""
    overrides = dict(configuration.parse_port(text) for text in port or [])
    config = configuration.load(home, port_base, overrides)
    names = _names(only, extra)
    started = control.start(config, names)
    wanted = [component.name for component in select(names)]
    with Live(console=_errors, refresh_per_second=8, transient=True) as live:
        control.wait(started.config, wanted, lambda now: live.update(view.progress(now, wanted)), timeout)
    if "api" in wanted:
        tenant.ensure(started.config, started.secrets)
    note = "already up" if started.already_up else "up"
    _out.print(f"Lily's stack is {note}: [bold]source {config.home / 'env'}[/]")
    _out.print(view.table(started.config, state.read(config.state_file), memory.by_component(config)))


def _names(only: str | None, extra: str | None) -> list[str] | None:
    """The components that the flags ask for; None for what is started by default."""
    if not only and not extra:
        return None
    named = [*(only.split(",") if only else DEFAULT), *(extra.split(",") if extra else ())]
    return [name.strip() for name in named]


@plain_errors
def down(
    home: Home = None,
    wipe: Annotated[bool, typer.Option("--wipe", help="Delete the stack's data and secrets too")] = False,
) -> None:
    """Stop the embedded stack."""
    config = configuration.remembered(configuration.home_folder(home))
    with Live(console=_errors, refresh_per_second=8, transient=True) as live:
        stopped = control.stop(config, lambda now: live.update(view.progress(now, list(now.components))))
    if wipe:
        control.wipe(config)
    data = "its data is deleted" if wipe else f"its data stays in {config.home}"
    _out.print(f"Lily's stack {'is down' if stopped else 'was not up'}; {data}")


@plain_errors
def status(
    home: Home = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs")] = False,
) -> None:
    """Show the components: state, pid, port, memory, restarts, uptime."""
    config = configuration.remembered(configuration.home_folder(home))
    current = state.read(config.state_file)
    sizes = memory.by_component(config)
    if as_json:
        typer.echo(json.dumps(view.as_document(config, current, sizes), indent=1))
    elif current.supervisor is None:
        raise UserError(f"no stack is up in {config.home}; start one with `lily up`")
    else:
        _out.print(view.table(config, current, sizes))


@plain_errors
def logs(
    component: Annotated[str | None, typer.Argument(help="One component; all when left out")] = None,
    home: Home = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines are written")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many of the last lines")] = 50,
) -> None:
    """Print the end of a component's log."""
    config = configuration.remembered(configuration.home_folder(home))
    files = sorted(config.logs.glob("*.log")) if component is None else [config.log_file(component)]
    if not files or not all(path.exists() for path in files):
        known = ", ".join(path.stem for path in sorted(config.logs.glob("*.log"))) or "none yet"
        raise UserError(f"no log of {component or 'any component'} in {config.logs}; there are: {known}")
    tail = ["tail", "-n", str(lines), *(["-F"] if follow else []), *map(str, files)]
    try:
        subprocess.run(tail, check=False)
    except KeyboardInterrupt:  # how one leaves --follow
        return
