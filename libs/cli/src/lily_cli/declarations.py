"""What is declared in files by name: `apply`, `list`, `show` and `delete` for each kind of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from lily_cli.app import connect, examples
from lily_cli.client import LilyClient, path_segment
from lily_cli.errors import UsageError
from lily_cli.output import Column, JsonFlag, print_fields, print_json, print_rows, say

_NAME: Final = "name:"
_FilesArgument = Annotated[
    list[Path],
    typer.Argument(help="YAML or JSON; what a file declares is called as the file, unless it says `name`."),
]
_NameArgument = Annotated[str, typer.Argument(help="Its name.")]


@dataclass(frozen=True)
class Declared:
    """A kind of declaration: its command group, its path in the API, its noun, and a name for the examples."""

    group: str
    path: str
    noun: str
    example: str
    columns: Sequence[Column]
    #: What else is to be known of the two.
    applied: str = ""
    deleted: str = ""

    @property
    def plural(self) -> str:
        return f"{self.noun[:-1]}ies" if self.noun.endswith("y") else f"{self.noun}s"


def mount(app: typer.Typer, kind: Declared) -> None:
    """Add the four commands."""

    def apply(ctx: typer.Context, files: _FilesArgument, as_json: JsonFlag = False) -> None:
        with connect(ctx) as client:
            made = declare(client, kind.path, files)
        if as_json:
            print_json(made)

    def list_all(ctx: typer.Context, as_json: JsonFlag = False) -> None:
        with connect(ctx) as client:
            rows = client.pages(kind.path)
            print_rows(rows, list(kind.columns), as_json=as_json, empty=f"no {kind.plural}")

    def show(ctx: typer.Context, name: _NameArgument, as_json: JsonFlag = False) -> None:
        with connect(ctx) as client:
            print_fields(client.get(f"{kind.path}/{path_segment(name)}"), as_json=as_json)

    def delete(ctx: typer.Context, name: _NameArgument) -> None:
        with connect(ctx) as client:
            client.delete(f"{kind.path}/{path_segment(name)}")
        say(f"{name} is deleted")

    def add(name: str, command: Any, argument: str, text: str) -> None:
        example = examples(f"lily {kind.group} {name} {argument}".rstrip())
        app.command(name, help=text, epilog=example)(command)

    add("apply", apply, f"{kind.example}.yaml", f"Declare {kind.plural}, or change them. {kind.applied}")
    add("list", list_all, "", f"List the {kind.plural}.")
    add("show", show, kind.example, f"Show a {kind.noun}.")
    add("delete", delete, kind.example, f"Delete a {kind.noun}. {kind.deleted}")


def declare(client: LilyClient, path: str, files: Iterable[Path]) -> list[Any]:
    """Put each file under `path` and say so; returns the answers. Raises UsageError when one cannot be read."""
    made = []
    for file in files:
        try:
            text = file.read_bytes()
        except OSError as missing:
            raise UsageError(f"cannot read {file}: {missing.strerror}") from None
        name = _named(text) or file.stem
        made.append(client.put_text(f"{path}/{path_segment(name)}", text, "application/yaml"))
        say(f"{name} is declared")
    return made


def _named(text: bytes) -> str | None:
    """The name that a declaration gives itself."""
    for line in text.decode("utf-8", "replace").splitlines():
        if line.startswith(_NAME):
            return line.removeprefix(_NAME).split("#")[0].strip().strip("'\"") or None
    return None
