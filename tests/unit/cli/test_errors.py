"""Every failure is one line on stderr and an exit code; never a traceback."""

from __future__ import annotations

import httpx
import pytest

URL = "http://lily.test"


def test_a_problem_becomes_one_line_with_its_fields(lily, api):
    problem = {
        "type": "urn:lily:problem:invalid-input",
        "title": "Invalid input",
        "status": 422,
        "detail": "the request has 1 wrong field",
        "errors": [{"field": "body.name", "message": "String should have at least 1 character"}],
    }
    api.post("/v1/connectors").respond(422, json=problem)
    result = lily("connectors", "create", "montecarlo", "--name", " ")
    assert result.exit_code == 1
    assert result.stderr == (
        "error: the request has 1 wrong field (422): body.name: String should have at least 1 character\n"
    )
    assert result.stdout == ""


def test_markup_in_an_answer_is_text(lily, api):
    api.get("/v1/keys").respond(404, json={"detail": "no [bold]such[/bold] thing"})
    assert lily("keys", "list").stderr == "error: no [bold]such[/bold] thing (404)\n"


def test_an_answer_that_is_no_problem(lily, api):
    api.get("/v1/keys").respond(502, html="<html>bad gateway</html>")
    assert lily("keys", "list").stderr == "error: Bad Gateway (502)\n"


def test_overload_says_when_to_come_back(lily, api):
    api.get("/v1/keys").respond(503, json={"detail": "Kafka is away"}, headers={"Retry-After": "2"})
    assert lily("keys", "list").stderr == "error: Kafka is away (503); try again in 2 s\n"


def test_unreachable(lily, api):
    api.get("/v1/keys").mock(side_effect=httpx.ConnectError("refused"))
    result = lily("keys", "list")
    assert result.exit_code == 3
    assert result.stderr == f"error: cannot reach {URL} (refused); is it running? `lily up` starts a stack\n"


def test_no_key(lily):
    result = lily("keys", "list", flags=())
    assert result.exit_code == 2
    assert "LILY_API_KEY" in result.stderr


@pytest.mark.parametrize("url", ["http://[", "localhost:7700", "http://localhost:abc"])
def test_a_url_that_is_none(lily, url):
    result = lily("keys", "list", flags=("--url", url, "--api-key", "k"))
    assert result.exit_code in (1, 3)
    assert url in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_json_option_that_is_no_json(lily):
    result = lily("connectors", "create", "montecarlo", "--name", "mc", "--config", "{namespace: 1}")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --config: not JSON")


def test_json_option_from_a_file_that_is_not_there(lily):
    result = lily("connectors", "create", "montecarlo", "--name", "mc", "--config", "@nothing.json")
    assert result.exit_code == 2
    assert result.stderr == "error: --config: cannot read nothing.json: No such file or directory\n"
