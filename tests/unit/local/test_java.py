"""Finding a Java, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from lily_local import java
from lily_local.errors import UserError


def make_jdk(folder: Path, version: str | None, output: str = "") -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    program.chmod(0o755)
    if version is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.mark.parametrize(("text", "number"), [("17.0.15", 17), ("21", 21), ("25-ea", 25)])
def test_java_home_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, number: int) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_jdk(tmp_path / "jdk", text)))
    assert java.find() == java.Java(tmp_path / "jdk", number)


def test_without_a_release_file_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_jdk(tmp_path / "jdk", None, 'openjdk version "21.0.2" 2024-01-16')
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/bin:/usr/bin")
    assert java.find().version == 21


def test_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_jdk(tmp_path / "jdk", "1.8.0_392")))
    with pytest.raises(UserError, match="is Java 8, which is too old; install a JRE 17"):
        java.find()


def test_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="no Java found; install a JRE 17 or later"):
        java.find()


def test_java_home_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UserError, match="holds no bin/java"):
        java.find()
