"""The lock, the cache and the download of jars."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from lily_local.errors import UserError
from lily_local.jars import cache, resolve
from lily_local.jars.lock import LOCK_FILE, Jar, JarSet, load, pom_digest

BODY = b"not really a jar"


def jar(body: bytes = BODY) -> Jar:
    return Jar("org.example:thing:1.0", hashlib.sha256(body).hexdigest(), len(body))


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, httpserver: HTTPServer) -> JarSet:
    """A set of one jar, an empty cache and a repository of our own."""
    made = JarSet("example", (jar(),))
    monkeypatch.setenv("LILY_CACHE", str(tmp_path))
    monkeypatch.setenv("LILY_MAVEN_REPOSITORY", httpserver.url_for("/maven2"))
    monkeypatch.setattr(cache, "jar_set", lambda _: made)
    monkeypatch.setattr("lily_local.jars.download.time.sleep", lambda _: None)
    return made


PATH = "/maven2/org/example/thing/1.0/thing-1.0.jar"


def test_the_lock_is_of_this_pom() -> None:
    assert json.loads(LOCK_FILE.read_text())["pom_sha256"] == pom_digest(resolve.default_pom()), (
        "infra/pom.xml has changed: run `python -m lily_local lock-jars`"
    )


def test_every_profile_of_the_pom_is_a_set_and_no_file_name_comes_twice() -> None:
    assert list(load()) == resolve.profiles(resolve.default_pom())
    for jars in load().values():
        names = [jar.file_name for jar in jars.jars]
        assert len(set(names)) == len(names)


def test_what_spark_carries_is_not_brought_again() -> None:
    carried = resolve._carried_by_spark()
    artifacts = {jar.coordinate.split(":")[1] for jar in load()["spark"].jars}
    assert {"netty-buffer", "jackson-databind", "hadoop-client-api", "commons-logging"} <= carried
    assert not artifacts & carried
    assert "bundle" not in artifacts
    assert not any("openlineage" in artifact for artifact in artifacts)


def test_fetched_once_then_taken_from_the_cache(example: JarSet, httpserver: HTTPServer) -> None:
    httpserver.expect_oneshot_request(PATH).respond_with_data(BODY)
    paths = cache.ensure("example")
    assert [path.read_bytes() for path in paths] == [BODY]
    assert cache.ensure("example") == paths  # a second request would fail
    httpserver.check_assertions()


def test_a_passing_failure_is_tried_again(example: JarSet, httpserver: HTTPServer) -> None:
    httpserver.expect_ordered_request(PATH).respond_with_data("busy", status=503)
    httpserver.expect_ordered_request(PATH).respond_with_data(BODY)
    assert cache.ensure("example")[0].read_bytes() == BODY


def test_another_file_than_the_locked_one_is_refused(example: JarSet, httpserver: HTTPServer) -> None:
    httpserver.expect_request(PATH).respond_with_data(b"something else")
    with pytest.raises(UserError, match="SHA-256 differs"):
        cache.ensure("example")
    assert not cache.is_complete(example)
    assert list(cache.folder(example).iterdir()) == []


def test_a_missing_file_is_named(example: JarSet, httpserver: HTTPServer) -> None:
    httpserver.expect_request(PATH).respond_with_data("no", status=404)
    with pytest.raises(UserError, match=r"cannot fetch org\.example:thing:1\.0"):
        cache.ensure("example")


def test_a_truncated_file_in_the_cache_is_fetched_again(example: JarSet, httpserver: HTTPServer) -> None:
    httpserver.expect_request(PATH).respond_with_data(BODY)
    path = cache.ensure("example")[0]
    path.write_bytes(BODY[:3])
    assert cache.ensure("example")[0].read_bytes() == BODY


def test_an_unknown_set_is_named() -> None:
    with pytest.raises(UserError, match="no jar set 'nix': there are kafka"):
        cache.ensure("nix")
