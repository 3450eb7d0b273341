"""Tickets: one for each thing, told on while it is open; Jira's limits, its answers and its secrets."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any, cast

import orjson
import pytest
from pytest_httpserver import HTTPServer

from lily_common.errors import InvalidInputError
from lily_connectors.contract import HttpPort, HttpRequest, OutboundNotice, Outcome, Ports
from lily_connectors.sinks.catalogue import build, parse_config
from lily_connectors.sinks.http import GuardedHttp
from lily_connectors.ssrf import Guard
from lily_connectors.vendors.jira.outbound import JiraSink, comment, description, label, summary

NOW = datetime(2026, 5, 1, 8, 0, 1, tzinfo=UTC)
LOCAL = Guard((ip_network("127.0.0.0/8"),))
TOKEN = "ATATT-very-secret"
ACCOUNT = base64.b64encode(f"lily@example.com:{TOKEN}".encode()).decode()
TABLE = "postgres://db/shop/public/customers"
ATTACHED = "classification.attached"
DETACHED = "classification.detached"
SEARCH = "/rest/api/3/search/jql"
CREATE = "/rest/api/3/issue"
COMMENT = "/rest/api/3/issue/DATA-7/comment"
OPEN = {"issues": [{"id": "10007", "key": "DATA-7", "self": "https://acme/10007"}], "isLast": True}
NONE_OPEN: dict[str, Any] = {"issues": [], "isLast": True}


def notice(
    event_type: str, subject: str = TABLE, tenant: str = "acme", source: str = "urn:test", **data: Any
) -> OutboundNotice:
    event = {
        "type": f"lily.{event_type}",
        "id": "1",
        "source": source,
        "subject": subject,
        "time": "2026-05-01T08:00:00.000000Z",
        "data": {"qualified_name": subject, **data},
    }
    return OutboundNotice("8d0f", tenant, f"lily.{event_type}", subject, "any", orjson.dumps(event))


def sink(url: str = "https://acme.atlassian.net", **more: Any) -> JiraSink:
    fields = {"url": url, "email": "lily@example.com", "token": TOKEN, "project": "DATA", **more}
    made = build("jira", fields)
    assert isinstance(made, JiraSink)
    return made


def ports(http: HttpPort) -> Ports:
    return Ports(http, cast(Any, None))


async def deliver(httpserver: HTTPServer, told: OutboundNotice, **more: Any) -> Outcome:
    """The notice sent to a Jira on loopback, over the sockets that egress uses."""
    jira = sink(httpserver.url_for("/"), **more)
    async with GuardedHttp(LOCAL) as http:
        outcome = await jira.send(jira.render(told, NOW), ports(http), 5)
    httpserver.check()
    return outcome


def answers(httpserver: HTTPServer, path: str, body: Any, status: int = 200, **headers: str) -> None:
    data = body if isinstance(body, str) else json.dumps(body)
    httpserver.expect_request(path, method="POST").respond_with_data(data, status=status, headers=headers)


def calls(httpserver: HTTPServer) -> list[tuple[str, Any]]:
    return [(request.path, request.get_json()) for request, _ in httpserver.log]


def texts(node: Any) -> Iterator[str]:
    """Every text of a document."""
    if isinstance(node, dict):
        if node.get("type") == "text":
            yield node["text"]
        node = list(node.values())
    for part in node if isinstance(node, list) else ():
        yield from texts(part)


async def test_a_ticket_is_made_when_none_is_open(httpserver: HTTPServer) -> None:
    answers(httpserver, SEARCH, NONE_OPEN)
    answers(httpserver, CREATE, {"id": "10007", "key": "DATA-7"}, 201)
    told = notice(ATTACHED, tag="PII", reason="holds e-mail addresses")
    outcome = await deliver(httpserver, told, issue_type="Bug", labels=["governance"])
    assert (outcome.ok, outcome.status_code) == (True, 201)
    assert "DATA-7" in outcome.snippet
    (searched, search), (made, create) = calls(httpserver)
    assert (searched, made) == (SEARCH, CREATE)
    mark = label(told)
    assert f'project = "DATA" AND labels = "{mark}" AND statusCategory != Done' in search["jql"]
    fields = create["fields"]
    assert fields["labels"] == [mark, "governance"]
    assert (fields["project"], fields["issuetype"]) == ({"key": "DATA"}, {"name": "Bug"})
    assert fields["summary"] == "public.customers is tagged PII"
    assert ": holds e-mail addresses" in list(texts(fields["description"]))
    for request, _ in httpserver.log:
        assert request.headers["Authorization"] == f"Basic {ACCOUNT}"
        assert request.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("event_type", [ATTACHED, DETACHED])
async def test_an_open_ticket_is_commented_on(httpserver: HTTPServer, event_type: str) -> None:
    answers(httpserver, SEARCH, OPEN)
    answers(httpserver, COMMENT, {"id": "1"}, 201)
    outcome = await deliver(httpserver, notice(event_type, tag="PII"))
    assert (outcome.ok, outcome.status_code) == (True, 201)
    [_, (told, body)] = calls(httpserver)
    assert told == COMMENT
    state = "is tagged" if event_type == ATTACHED else "is no longer tagged"
    assert next(texts(body["body"])) == f"public.customers {state} PII"


@pytest.mark.parametrize(
    "told", [notice(DETACHED, tag="PII"), notice("incident.resolved", incident_id="4f6c")]
)
async def test_an_end_makes_no_ticket(httpserver: HTTPServer, told: OutboundNotice) -> None:
    answers(httpserver, SEARCH, NONE_OPEN)
    outcome = await deliver(httpserver, told)
    assert outcome.ok
    assert "no open ticket" in outcome.snippet
    assert [path for path, _ in calls(httpserver)] == [SEARCH]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (notice(ATTACHED, tag="PII"), notice(DETACHED, tag="PII", origin="rule")),
        (notice("incident.opened", incident_id="1", title="t"), notice("incident.resolved", incident_id="1")),
        (notice("owner.changed", owners=["a"]), notice("owner.changed", owners=["b"])),
    ],
)
def test_what_is_about_the_same_has_one_ticket(one: OutboundNotice, other: OutboundNotice) -> None:
    assert label(one) == label(other)


def test_what_is_about_something_else_has_another_ticket() -> None:
    told = [
        notice(ATTACHED, tag="PII"),
        notice(ATTACHED, tag="GDPR"),
        notice(ATTACHED, tag="PII", subject=TABLE + "/email"),
        notice(ATTACHED, tag="PII", tenant="other"),
        notice("incident.updated", incident_id="PII"),
        notice("incident.updated", incident_id="PII", source="urn:other-monitor"),
        notice("owner.changed", owners=[]),
        notice("term.changed", terms=[]),
        notice("asset.deleted"),
        notice("subscription.test"),
    ]
    assert len({label(each) for each in told}) == len(told)


@pytest.mark.parametrize("refusing", [SEARCH, CREATE, COMMENT])
async def test_retry_after_is_passed_on(httpserver: HTTPServer, refusing: str) -> None:
    if refusing != SEARCH:
        answers(httpserver, SEARCH, NONE_OPEN if refusing == CREATE else OPEN)
    answers(httpserver, refusing, "slow down", 429, **{"Retry-After": "7"})
    outcome = await deliver(httpserver, notice(ATTACHED, tag="PII"))
    assert (outcome.ok, outcome.status_code, outcome.retry_after) == (False, 429, 7.0)
    assert outcome.error == "answered 429"
    assert calls(httpserver)[-1][0] == refusing


@pytest.mark.parametrize("missing", [SEARCH, CREATE, COMMENT])
async def test_an_endpoint_taken_away_does_not_end_the_subscription(
    httpserver: HTTPServer, missing: str
) -> None:
    if missing != SEARCH:
        answers(httpserver, SEARCH, NONE_OPEN if missing == CREATE else OPEN)
    answers(httpserver, missing, "The requested API has been removed.", 410)
    outcome = await deliver(httpserver, notice(ATTACHED, tag="PII"))
    assert (outcome.ok, outcome.status_code, outcome.gone) == (False, 410, False)
    assert "has been removed" in outcome.snippet


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "<html>Log in</html>",
        "[]",
        "null",
        "{}",
        {"issues": None},
        {"issues": {}},
        {"issues": [{}]},
        {"issues": [{"id": "10007"}]},
        {"issues": [{"key": 7}]},
        {"issues": [{"key": "DATA-7/../../2"}]},
        {"issues": [{"key": "DATA-7\n"}]},
        {"issues": [{"key": "data-7"}]},
        {"names": "x" * 2000, "issues": []},
    ],
)
async def test_a_search_that_cannot_be_read_is_tried_again(httpserver: HTTPServer, answer: Any) -> None:
    answers(httpserver, SEARCH, answer)
    outcome = await deliver(httpserver, notice(ATTACHED, tag="PII"))
    assert (outcome.ok, outcome.gone, outcome.status_code) == (False, False, 200)
    assert outcome.error is not None
    assert outcome.error.startswith("the search's answer cannot be read")
    assert [path for path, _ in calls(httpserver)] == [SEARCH]


async def test_a_refused_account_is_tried_again_without_a_second_call(httpserver: HTTPServer) -> None:
    answers(httpserver, SEARCH, "Client must be authenticated to access this resource.", 401)
    outcome = await deliver(httpserver, notice(DETACHED, tag="PII"))
    assert (outcome.ok, outcome.status_code, outcome.error) == (False, 401, "answered 401")
    assert [path for path, _ in calls(httpserver)] == [SEARCH]
    assert TOKEN not in repr(outcome)
    assert ACCOUNT not in repr(outcome)


async def test_both_calls_share_the_time() -> None:
    class SlowPort:
        def __init__(self) -> None:
            self.limits: list[float] = []

        async def post(self, request: HttpRequest, *, within: float) -> Outcome:
            self.limits.append(within)
            await asyncio.sleep(0.2)
            return Outcome(True, 200, snippet=json.dumps(NONE_OPEN))

    port, jira = SlowPort(), sink()
    await jira.send(jira.render(notice(ATTACHED, tag="PII"), NOW), ports(port), 10)
    first, second = port.limits
    assert first == 5
    assert 5 < second < 9.9


def test_secrets_are_not_shown() -> None:
    jira = sink()
    rendered = jira.render(notice(ATTACHED, tag="PII"), NOW)
    assert rendered.search.headers["Authorization"] == f"Basic {ACCOUNT}"
    for shown in (repr(rendered), repr(jira.config), jira.config.model_dump_json()):
        assert TOKEN not in shown
        assert ACCOUNT not in shown
    assert "PII" not in repr(rendered), "bodies are not shown either"


@pytest.mark.parametrize("letter", ["x", "😀", "é"])
def test_a_summary_is_one_line_within_jiras_limit(letter: str) -> None:
    for length in (200, 260, 5000):
        event = notice("incident.opened", incident_id="1", title="a\r\nb\u2028c " + letter * length).event()
        line = summary(event)
        assert line.startswith("Incident opened on public.customers: a b c " + letter)
        assert len(line.splitlines()) == 1
        assert len(line.encode("utf-16-le")) // 2 <= 255
        assert line.endswith(letter if length == 200 and letter != "😀" else "…")


def test_long_texts_stay_within_jiras_limit_and_none_is_empty() -> None:
    names = ("tag", "value", "origin", "origin_asset", "rule", "severity", "status", "description", "reason")
    event = notice(
        "incident.opened",
        incident_id="1",
        title="t" * 5000,
        owners=[""],
        terms=["y" * 5000],
        url="https://monitor.example/" + "z" * 1900,
        **dict.fromkeys(names, "x" * 5000),
    ).event()
    for text in (description(event), comment(event)):
        assert all(texts(text))
        assert len(json.dumps(text)) < 32_767
        assert "Owners" in list(texts(text))


def test_only_plain_and_whole_links_become_links() -> None:
    def links(url: str) -> int:
        text = description(notice("incident.opened", incident_id="1", title="t", url=url).event())
        assert json.dumps(text).count('"link"') == list(texts(text)).count("Open at the source")
        return json.dumps(text).count('"link"')

    assert links("https://monitor.example/incidents/1") == 1
    for url in (
        "http://a.example",
        "javascript:alert(1)",
        "https://a b",
        "https://a\nb",
        "https://a/" + "b" * 2000,
    ):
        assert links(url) == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", "https://acme.atlassian.net/jira"),
        ("url", "https://acme.atlassian.net?x=1"),
        ("url", "https://user@acme.atlassian.net"),
        ("url", "ftp://acme.atlassian.net"),
        ("email", "lily"),
        ("email", "lily:x@example.com"),
        ("token", ""),
        ("project", "data"),
        ("project", 'DATA" OR project = "HR'),
        ("project", "DATA\n"),
        ("labels", ["two words"]),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(field: str, value: Any) -> None:
    good = {
        "url": "https://acme.atlassian.net",
        "email": "lily@example.com",
        "token": TOKEN,
        "project": "DATA",
        "labels": ["governance"],
    }
    assert parse_config("jira", good).urls() == {"url": "https://acme.atlassian.net"}
    with pytest.raises(InvalidInputError) as refused:
        parse_config("jira", good | {field: value})
    assert refused.value.errors[0].field.startswith(f"sink.{field}")


def test_a_slash_after_the_site_is_no_path() -> None:
    rendered = sink("https://acme.atlassian.net/").render(notice(ATTACHED, tag="PII"), NOW)
    assert rendered.search.url == "https://acme.atlassian.net/rest/api/3/search/jql"
