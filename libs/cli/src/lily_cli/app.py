"""What every command group shares: the typer application that prints errors as one line, and the way to a client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from lily_cli.client import LilyClient
from lily_cli.errors import CliError, UsageError
from lily_cli.output import fail_line
from lily_cli.settings import Settings


class LilyGroup(TyperGroup):
    """The root group: a CliError ends the process with its line and its exit code, not with a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CliError as error:
            fail_line(str(error))
            raise typer.Exit(error.exit_code) from None
        except BrokenPipeError:
            raise typer.Exit(0) from None


def group(help_text: str) -> typer.Typer:
    """A command group; called without a command it prints its help."""
    return typer.Typer(help=help_text, no_args_is_help=True)


def connect(ctx: typer.Context) -> LilyClient:
    """A client with the settings of this invocation. Use it as a context manager."""
    settings = ctx.find_object(Settings)
    if settings is None:
        raise UsageError("no settings: call the commands through `lily`")
    return LilyClient(settings)


def json_option(text: str | None, option: str) -> Any:
    """The value of an option that takes JSON, or `@file` with JSON in it. Raises UsageError naming the option."""
    if text is None:
        return None
    try:
        return json.loads(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    except OSError as missing:
        raise UsageError(f"{option}: cannot read {text[1:]}: {missing.strerror}") from None
    except ValueError as broken:
        raise UsageError(f"{option}: not JSON: {broken}") from None


def examples(*lines: str) -> str:
    """The examples under a command's help, one a line."""
    shown = "\n\n".join(f"  [cyan]{line}[/cyan]" for line in lines)
    return f"[bold]Examples[/bold]\n\n{shown}"
