"""Finds a Java to run Kafka and Spark with, or says what to install."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lily_local.errors import UserError

OLDEST = 17
_INSTALLED = Path("/usr/lib/jvm")
_ADVICE = f"install a JRE {OLDEST} or later (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME"


@dataclass(frozen=True)
class Java:
    home: Path
    version: int

    @property
    def command(self) -> str:
        return str(self.home / "bin" / "java")


def find() -> Java:
    """`$JAVA_HOME`, else `java` on the path; raises UserError when there is none or it is too old."""
    candidate = _executable()
    home = candidate.resolve().parent.parent
    version = _from_release_file(home) or _from_running(candidate)
    if version is None:
        raise UserError(f"{candidate} does not run; {_ADVICE}")
    if version < OLDEST:
        raise UserError(f"{candidate} is Java {version}, which is too old; {_ADVICE}")
    return Java(home, version)


def newer(oldest: int, program: str) -> Java:
    """One that is recent enough for a program that needs more than Lily does: `$LILY_<PROGRAM>_JAVA_HOME`, `$JAVA_HOME`,
    the path, or what Debian has installed. Raises UserError when there is none."""
    variable = f"LILY_{program.upper()}_JAVA_HOME"
    named = [os.environ[name] for name in (variable, "JAVA_HOME") if os.environ.get(name)]
    onpath = shutil.which("java")
    homes = [
        *map(Path, named),
        *([Path(onpath).resolve().parent.parent] if onpath else []),
        *sorted(_INSTALLED.glob("*"), reverse=True),
    ]
    for home in homes:
        version = _from_release_file(home)
        if version is not None and version >= oldest and (home / "bin" / "java").exists():
            return Java(home, version)
    raise UserError(
        f"{program} needs Java {oldest} or later and none was found; install one "
        f"(a package temurin-25-jdk or openjdk-25-jre-headless), or set {variable}"
    )


def _executable() -> Path:
    if given := os.environ.get("JAVA_HOME"):
        candidate = Path(given) / "bin" / "java"
        if candidate.exists():
            return candidate
        raise UserError(f"JAVA_HOME={given} holds no bin/java; {_ADVICE}")
    if found := shutil.which("java"):
        return Path(found)
    raise UserError(f"no Java found; {_ADVICE}")


def _from_release_file(home: Path) -> int | None:
    """The version from the JDK's own `release` file: running `java -version` costs a tenth of a second."""
    try:
        return _major((home / "release").read_text(), r'JAVA_VERSION="([^"]+)"')
    except OSError:
        return None


def _from_running(candidate: Path) -> int | None:
    try:
        done = subprocess.run(
            [candidate, "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _major(done.stderr, r'version "([^"]+)"')


def _major(text: str, pattern: str) -> int | None:
    found = re.search(pattern, text)
    if found is None:
        return None
    parts = re.split(r"[._+-]", found.group(1))
    return int(parts[1] if parts[0] == "1" else parts[0])
