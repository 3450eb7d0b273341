"""Commands that another package brings: mounted when it is installed, a clear line naming it when it is not."""

from __future__ import annotations

import importlib
from types import ModuleType

import typer

from lily_cli.errors import UsageError


def load(module: str, package: str) -> ModuleType:
    """The module; raises UsageError naming the package to install when it is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != module.partition(".")[0]:
            raise  # the package is there and lacks something of its own
        raise UsageError(f"this needs the package {package}: pip install {package}") from None


def mount(app: typer.Typer, module: str, package: str, names: dict[str, str]) -> None:
    """Let `module.register(app)` add its commands; without the package, commands of those names say what to install."""
    try:
        found = load(module, package)
    except UsageError as missing:
        for name, help_text in names.items():
            _explain(app, name, f"{help_text} (needs {package})", missing)
        return
    found.register(app)


def _explain(app: typer.Typer, name: str, help_text: str, missing: UsageError) -> None:
    def absent() -> None:
        raise missing

    app.command(name, help=help_text)(absent)
