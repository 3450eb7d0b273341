"""Rendering and sending: signatures as the reference library checks them, answers as the standard reads them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any

import pytest
from pydantic import SecretStr
from pytest_httpserver import HTTPServer
from standardwebhooks.webhooks import Webhook
from werkzeug import Request, Response

from lily_common.errors import InvalidInputError
from lily_connectors.contract import SNIPPET_BYTES, HttpRequest, OutboundNotice
from lily_connectors.sinks.catalogue import build, parse_config, revealed, sinks
from lily_connectors.sinks.http import MAX_RETRY_AFTER, GuardedHttp, retry_after_seconds
from lily_connectors.sinks.kafka import KafkaConfig, KafkaSink
from lily_connectors.sinks.webhook import WebhookConfig, WebhookSink, new_secret
from lily_connectors.ssrf import Guard

NOW = datetime.now(UTC)
LOCAL = Guard((ip_network("127.0.0.0/8"),))
NOTICE = OutboundNotice(
    "8d0f-id",
    "acme",
    "lily.classification.attached",
    "postgres://db/é/email",
    "attached",
    '{"a":"é😀"}'.encode(),
)


def test_webhook_verifies_with_the_reference_library_under_both_secrets() -> None:
    new, old = new_secret(), new_secret()
    sink = WebhookSink(WebhookConfig(url="https://example.com/x"), [new, old])
    request = sink.render(NOTICE, NOW)
    for secret in (new, old):
        Webhook(secret).verify(request.body, dict(request.headers))
    assert request.headers["Content-Type"].startswith("application/cloudevents+json")
    assert request.headers["webhook-id"] == NOTICE.delivery_id
    assert sink.render(NOTICE, NOW) == request


def test_webhook_secret_without_padding_signs_alike() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # the specification's example
    request = WebhookSink(WebhookConfig(url="https://example.com/x"), [secret]).render(NOTICE, NOW)
    Webhook(secret).verify(request.body, dict(request.headers))


def test_own_headers_go_along_but_cannot_replace_the_signature() -> None:
    config = WebhookConfig(
        url="https://example.com/x",
        headers={"Authorization": SecretStr("Bearer t"), "X-Team": SecretStr("a")},
    )
    headers = WebhookSink(config, [new_secret()]).render(NOTICE, NOW).headers
    assert headers["Authorization"] == "Bearer t"
    assert headers["X-Team"] == "a"


@pytest.mark.parametrize(
    "name", ["webhook-id", "Host", "Content-Type", "Cookie", "X-Forwarded-For", "x-amz-acl", "X A", ""]
)
def test_headers_outside_of_the_allow_list_are_refused(name: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        parse_config("webhook", {"kind": "webhook", "url": "https://example.com/x", "headers": {name: "v"}})
    assert refused.value.errors[0].field.startswith("sink.headers")


def test_header_values_cannot_break_out() -> None:
    with pytest.raises(InvalidInputError) as refused:
        parse_config("webhook", {"url": "https://example.com/x", "headers": {"X-A": "v\r\nHost: evil"}})
    assert "evil" not in refused.value.detail


def test_secrets_are_masked_and_can_be_revealed_for_sealing() -> None:
    fields = {"kind": "webhook", "url": "https://example.com/x", "headers": {"Authorization": "Bearer t"}}
    config = parse_config("webhook", fields)
    assert "Bearer" not in config.model_dump_json()
    assert "Bearer" not in repr(config)
    assert revealed(config) == fields
    request = build("webhook", revealed(config), [new_secret()]).render(NOTICE, NOW)
    assert "Bearer" not in repr(request)


def test_kafka_record_keeps_the_key_of_the_asset() -> None:
    record = KafkaSink(KafkaConfig()).render(NOTICE, NOW)
    assert record.topic == "lily.acme.events"
    assert record.key == "acme|postgres://db/é/email".encode()
    assert record.value == NOTICE.body


def test_catalogue_has_the_built_in_and_the_vendors_sinks() -> None:
    assert {"webhook", "kafka", "slack"} <= set(sinks())
    with pytest.raises(InvalidInputError) as refused:
        parse_config("pager", {})
    assert refused.value.errors[0].field == "sink.kind"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("5", 5.0), ("0", 0.0), (None, None), ("soon", None), ("-3", None), ("99999999", MAX_RETRY_AFTER)],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(value, NOW) == seconds


def test_retry_after_as_a_date() -> None:
    now = datetime(2026, 5, 1, 8, 0, 0, tzinfo=UTC)
    assert retry_after_seconds("Fri, 01 May 2026 08:00:30 GMT", now) == 30.0
    assert retry_after_seconds("Fri, 01 May 2026 07:00:00 GMT", now) == 0.0


async def post(url: str, within: float = 3) -> Any:
    async with GuardedHttp(LOCAL) as http:
        return await http.post(HttpRequest(url, {"Content-Type": "application/json"}, b"{}"), within=within)


@pytest.mark.parametrize(
    ("status", "ok", "gone"),
    [(200, True, False), (204, True, False), (400, False, False), (410, False, True), (500, False, False)],
)
async def test_statuses(httpserver: HTTPServer, status: int, ok: bool, gone: bool) -> None:
    httpserver.expect_request("/").respond_with_data("", status=status)
    outcome = await post(httpserver.url_for("/"))
    assert (outcome.ok, outcome.gone, outcome.status_code) == (ok, gone, status)


async def test_retry_after_is_passed_on(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/").respond_with_data("slow down", status=429, headers={"Retry-After": "7"})
    assert (await post(httpserver.url_for("/"))).retry_after == 7.0


async def test_a_huge_answer_is_cut(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/").respond_with_data("x\x00" * 5_000_000, status=500)
    outcome = await post(httpserver.url_for("/"))
    assert len(outcome.snippet.encode()) <= SNIPPET_BYTES
    assert "\x00" not in outcome.snippet


async def test_timeouts_are_outcomes(httpserver: HTTPServer) -> None:
    def slow(_request: Request) -> Response:
        time.sleep(1.0)
        return Response("late")

    httpserver.expect_request("/").respond_with_handler(slow)
    outcome = await post(httpserver.url_for("/"), within=0.2)
    assert not outcome.ok
    assert outcome.error is not None
    assert outcome.error.startswith("timeout")


async def test_a_closed_port_is_an_outcome_without_the_url() -> None:
    outcome = await post("http://127.0.0.1:1/secret-path")
    assert outcome.error is not None
    assert outcome.error.startswith("connection failed")
    assert "secret-path" not in outcome.error


async def test_cookies_are_not_kept(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/").respond_with_data("", headers={"Set-Cookie": "session=1"})
    async with GuardedHttp(LOCAL) as http:
        request = HttpRequest(httpserver.url_for("/"), {}, b"{}")
        await http.post(request, within=3)
        await http.post(request, within=3)
    assert all("Cookie" not in seen.headers for seen, _ in httpserver.log)
