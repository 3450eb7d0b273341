"""The API as a process: `python -m lily_api serve` from its start to SIGTERM."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import httpx
import pytest
from tests.support.api import ADMIN_KEY
from tests.support.poll import until


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def served(api_database: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    url = f"http://127.0.0.1:{_free_port()}"
    environment = os.environ | {
        "POSTGRES_URI": api_database,
        "KAFKA_BOOTSTRAP": "127.0.0.1:1",
        "MONGO_URI": "mongodb://127.0.0.1:1/",
        "LILY_ADMIN_KEY": ADMIN_KEY,
        "LILY_DEV_SIGNING_KEY": "true",
        "LILY_MASTER_KEY": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        "LILY_URL": url,
    }
    command = [sys.executable, "-m", "lily_api", "serve", "--port", url.rsplit(":", 1)[1]]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def alive() -> bool:
        if process.poll() is not None:
            pytest.fail(f"it ended with {process.returncode}")
        try:
            return httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    try:
        until(alive, "the API to answer")
        yield process, url
    finally:
        process.kill()
        process.wait()


def test_it_starts_without_kafka_and_stops_with_success(served: tuple[subprocess.Popen[bytes], str]) -> None:
    process, url = served
    ready = httpx.get(f"{url}/readyz", timeout=30, trust_env=False)
    assert ready.status_code == 503
    checks = ready.json()["checks"]
    assert checks["postgresql"] == "ok"
    assert checks["kafka"] != "ok"
    assert checks["mongodb"] != "ok"
    process.terminate()
    assert process.wait(60) == 0


def test_what_is_no_http_is_answered_as_a_problem(served: tuple[subprocess.Popen[bytes], str]) -> None:
    _, url = served
    port = int(url.rsplit(":", 1)[1])
    for request in (b"NONSENSE\r\n\r\n", b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(request)
            answer = b"".join(iter(partial(connection.recv, 65536), b""))
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"Content-Type: application/problem+json\r\n" in answer
        assert b'"urn:lily:problem:malformed-request"' in answer
