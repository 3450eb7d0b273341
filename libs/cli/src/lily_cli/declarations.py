"""Declarations in files: each is put under its name, which it says itself or which is the file's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from lily_cli.client import LilyClient, path_segment
from lily_cli.errors import UsageError
from lily_cli.output import say

_NAME: Final = "name:"


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
