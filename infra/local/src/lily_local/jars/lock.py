"""The lock file: the exact jars of each set, as resolved once from infra/pom.xml."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from lily_local.errors import UserError

LOCK_FILE = Path(__file__).parent / "lock.json"


@dataclass(frozen=True)
class Jar:
    """One file of a Maven repository; `coordinate` is `group:artifact:version`, or `…:packaging` when that is not jar."""

    coordinate: str
    sha256: str
    size: int

    @property
    def _parts(self) -> tuple[str, str, str, str]:
        group, artifact, version, *packaging = self.coordinate.split(":")
        return group, artifact, version, packaging[0] if packaging else "jar"

    @property
    def file_name(self) -> str:
        _, artifact, version, packaging = self._parts
        return f"{artifact}-{version}.{packaging}"

    @property
    def repository_path(self) -> str:
        group, artifact, version, _ = self._parts
        return f"{group.replace('.', '/')}/{artifact}/{version}/{self.file_name}"


@dataclass(frozen=True)
class JarSet:
    """The jars of one classpath."""

    name: str
    jars: tuple[Jar, ...]

    @cached_property
    def digest(self) -> str:
        """Short hash over every file's name and digest: it names the cache folder."""
        text = "\n".join(f"{jar.coordinate} {jar.sha256}" for jar in self.jars)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def size(self) -> int:
        return sum(jar.size for jar in self.jars)


@lru_cache(maxsize=1)
def load(lock_file: Path = LOCK_FILE) -> dict[str, JarSet]:
    """Every set of the lock file by name."""
    data = json.loads(lock_file.read_text())
    return {
        name: JarSet(name, tuple(Jar(jar["coordinate"], jar["sha256"], jar["size"]) for jar in jars))
        for name, jars in data["sets"].items()
    }


def jar_set(name: str) -> JarSet:
    """The set called `name`; raises UserError naming those that exist."""
    sets = load()
    if name not in sets:
        raise UserError(f"no jar set {name!r}: there are {', '.join(sets)}")
    return sets[name]


def pom_digest(pom: Path) -> str:
    """What the lock remembers of the pom that it was made from."""
    return hashlib.sha256(pom.read_bytes()).hexdigest()
