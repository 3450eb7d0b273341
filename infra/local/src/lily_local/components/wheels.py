"""Servers that come as Python wheels: where their files are."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from lily_local.errors import UserError


def wheel_folder(package: str) -> Path:
    """The folder of an installed package, found without running the package's own code."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"the package {package} is not installed: install lily-local with its dependencies")
    return Path(spec.submodule_search_locations[0])
