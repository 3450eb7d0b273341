"""The files that Connect reads passwords from."""

from __future__ import annotations

import stat
from pathlib import Path

from lily_api.capture.passwords import PasswordFolder


def test_written_for_the_owner_alone_under_a_name_that_changes_with_the_content(tmp_path: Path) -> None:
    folder = PasswordFolder(tmp_path / "secrets")
    folder.write("con_1", "sealed one", "hunter2\n")
    folder.write("con_1", "sealed one", "ignored: the name stands for the content")
    [path] = (tmp_path / "secrets").iterdir()
    assert path.read_text() == "hunter2\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert folder.reference("con_1", "sealed one") == f"${{lily:{path.parent}:{path.name}}}"
    assert folder.reference("con_1", "sealed two") != folder.reference("con_1", "sealed one")
    assert "hunter2" not in folder.reference("con_1", "sealed one")


def test_old_files_go_and_those_of_others_stay(tmp_path: Path) -> None:
    folder = PasswordFolder(tmp_path)
    folder.keep_only("con_1", None)
    for connector, sealed in (("con_1", "old"), ("con_1", "new"), ("con_10", "other")):
        folder.write(connector, sealed, sealed)
    folder.keep_only("con_1", "new")
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["new", "other"]
    folder.keep_only("con_1", None)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["other"]
