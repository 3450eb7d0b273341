"""Every command explains itself, with an example."""

from __future__ import annotations

import pytest
from typer.main import get_command

from lily_cli import extras
from lily_cli.errors import UsageError
from lily_cli.main import app


def commands() -> list[tuple[str, ...]]:
    """The path of every command that is the CLI's own (the stack's are mounted)."""
    root = get_command(app)
    found: list[tuple[str, ...]] = []
    for name, command in root.commands.items():
        nested = getattr(command, "commands", None)
        found += [(name, inner) for inner in nested] if nested else [(name,)]
    return [
        path
        for path in found
        if path[0] not in ("up", "down", "status", "logs", "demo", "demo-enforce", "trino")
    ]


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_help_has_an_example(lily, path):
    result = lily(*path, "--help")
    assert result.exit_code == 0
    assert (
        f"lily {' '.join(path)}" in result.stdout.replace("\n", " ").split("Examples")[-1]
        or path[0] == "events"
    )


def test_version(lily):
    result = lily("--version")
    assert (result.exit_code, result.stdout) == (0, "lily 0.1.0\n")


def test_a_missing_package_is_named():
    with pytest.raises(UsageError, match="pip install lily-nothing"):
        extras.load("lily_nothing.commands", "lily-nothing")


def test_completion_is_offered(lily):
    assert "--install-completion" in lily("--help").stdout
