"""The per-user cache of jars: one folder a set, named by the set's digest; a marker says that it is whole."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lily_local.jars.lock import JarSet, jar_set

_COMPLETE = ".complete"


def cache_root() -> Path:
    """`$LILY_CACHE`, else `lily` in the XDG cache folder."""
    if given := os.environ.get("LILY_CACHE"):
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "lily"


def folder(jars: JarSet) -> Path:
    return cache_root() / "jars" / f"{jars.name}-{jars.digest}"


def is_complete(jars: JarSet) -> bool:
    """Whether every file is there; digests were checked when the marker was written."""
    home = folder(jars)
    if not (home / _COMPLETE).exists():
        return False
    sizes = {entry.name: entry.stat().st_size for entry in os.scandir(home)}
    return all(sizes.get(jar.file_name) == jar.size for jar in jars.jars)


def ensure(name: str) -> list[Path]:
    """The jars of one set, fetched if need be."""
    return ensure_all([name])[name]


def ensure_all(names: Iterable[str]) -> dict[str, list[Path]]:
    """The jars of each set; raises UserError when one cannot be fetched. Costs a directory scan when cached."""
    wanted = [jar_set(name) for name in dict.fromkeys(names)]
    if any(not is_complete(jars) for jars in wanted):
        with _locked():
            missing = [jars for jars in wanted if not is_complete(jars)]
            _fetch(missing)
    return {jars.name: [folder(jars) / jar.file_name for jar in jars.jars] for jars in wanted}


def paths(name: str) -> str:
    """Comma-separated jar paths, as Spark's `spark.jars` wants them."""
    return ",".join(str(path) for path in ensure(name))


def _fetch(missing: list[JarSet]) -> None:
    from lily_local.jars.download import fetch_all  # kept out of the warm path: it loads the HTTP client

    fetch_all([(jar, folder(jars)) for jars in missing for jar in jars.jars])
    for jars in missing:
        (folder(jars) / _COMPLETE).touch()


@contextmanager
def _locked() -> Iterator[None]:
    """One fetch at a time per user, so that two stacks started together do not race."""
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with (root / "jars.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
