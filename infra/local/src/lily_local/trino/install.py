"""Trino's server out of the archive that Maven Central has: unpacked once per user, only what is used of it."""

from __future__ import annotations

import fcntl
import shutil
import tarfile
import tempfile
from pathlib import Path

from lily_local import jars
from lily_local.jars.cache import cache_root

#: Of the hundred plugins the archive holds.
PLUGINS = ("delta-lake", "opa", "memory")


def installed() -> Path:
    """Trino's folder, fetched and unpacked if need be. Raises UserError when it cannot be had."""
    archive = jars.ensure("trino")[0]
    home = cache_root() / "trino" / archive.parent.name
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        with (home.parent / "lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if not home.exists():
                _unpack(archive, home)
    return home


def _unpack(archive: Path, home: Path) -> None:
    """What is used of the archive. A jar that several plugins have is in it once: the others are links to that one."""
    with tarfile.open(archive) as packed:
        members = [member for member in packed if _wanted(_path(member.name))]
    wanted = {member.name for member in members} | {one.linkname for one in members if one.islnk()}
    with tempfile.TemporaryDirectory(dir=home.parent) as folder:
        with tarfile.open(archive, "r|gz") as packed:
            for member in packed:
                if member.name in wanted:
                    packed.extract(member, folder, filter="data")
        (made,) = Path(folder).iterdir()
        for plugin in (made / "plugin").iterdir():
            if plugin.name not in PLUGINS:
                shutil.rmtree(plugin)
        shutil.move(made, home)


def _path(name: str) -> str:
    """Without the archive's own folder."""
    return name.partition("/")[2]


def _wanted(path: str) -> bool:
    top, _, rest = path.partition("/")
    return top == "lib" or (top == "plugin" and rest.partition("/")[0] in PLUGINS)
