"""Passwords of sources, as Connect reads them: a file each in a folder that only Lily and Connect's workers see.

Connect keeps the configuration of a connector in a Kafka topic; it holds `${lily:<folder>:<file>}` in the password's
place. A file's name changes with its content, so that a new password is a new configuration, which restarts the tasks.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

#: Name of the provider in the worker's configuration.
PROVIDER = "lily"


class PasswordFolder:
    """The folder. It may be emptied at any time: the reconciler writes again what is missing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def reference(self, connector_id: str, sealed: str) -> str:
        """What stands in the configuration; `sealed` is the secret as it is kept at rest."""
        return f"${{{PROVIDER}:{self._folder}:{_file_name(connector_id, sealed)}}}"

    def write(self, connector_id: str, sealed: str, password: str) -> None:
        """Have the file there, readable by its owner alone."""
        path = self._folder / _file_name(connector_id, sealed)
        if path.exists():
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(password)
        part.replace(path)

    def keep_only(self, connector_id: str, sealed: str | None) -> None:
        """Delete the connector's other files (all when None): once Connect has the newer configuration."""
        kept = _file_name(connector_id, sealed) if sealed is not None else ""
        for path in self._folder.glob(f"{connector_id}.*"):
            if path.name != kept:
                path.unlink(missing_ok=True)


def _file_name(connector_id: str, sealed: str) -> str:
    return f"{connector_id}.{hashlib.sha256(sealed.encode()).hexdigest()[:16]}"
