"""The commands `lily up | down | status | logs`, mounted by the CLI through `register`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer
from rich.console import Console

from lily_local.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")

_errors = Console(stderr=True, highlight=False)


def plain_errors(command: Callable[P, R]) -> Callable[P, R]:
    """A UserError becomes one line on stderr and exit code 1."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except UserError as error:
            _errors.print(f"[bold red]error:[/] {error}", soft_wrap=True)
            sys.exit(1)

    return wrapped


def register(app: typer.Typer) -> None:
    """Mount the stack's commands on the CLI."""
