"""The demo's own parts: it must not pass when it should not."""

from __future__ import annotations

import hashlib
import hmac
import json
import urllib.parse
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import httpx
import pytest
from standardwebhooks import Webhook

from lily_cli.errors import ApiError
from lily_connectors.vendors.montecarlo import inbound
from lily_local.components import registry
from lily_local.demo import incident, notices, receivers, report, spark_process, stack
from lily_local.demo.checks import DemoError, require, until
from lily_local.demo.shop import Shop

START = datetime(2026, 1, 15, 18, 10, tzinfo=UTC)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_until_gives_up_with_what_it_waited_for():
    with pytest.raises(DemoError, match="the moon: not within 0 s"):
        until("the moon", lambda: None, 0.05, 0.01)


def test_until_takes_404_as_not_yet_and_nothing_else():
    answers = iter([ApiError(404, {}, "no"), ApiError(500, {}, "broken")])

    def probe():
        raise next(answers)

    with pytest.raises(ApiError, match="broken"):
        until("it", probe, 5, 0.01)


def test_require():
    require(1, "fine")
    with pytest.raises(DemoError, match="not fine"):
        require([], "not fine")


def test_names_of_the_shop():
    shop = Shop("postgresql://lily:secret@127.0.0.1:7704/shop")
    assert (
        shop.qualified_name("public", "customers", "email")
        == "postgres://127.0.0.1:7704/shop/public/customers/email"
    )
    assert "secret" not in repr(shop)


def test_incidents_are_signed_as_monte_carlo_documents_it():
    call = incident._signed({"a": 1, "payload": {"b": [None, True]}}, "s3cret")
    text = urllib.parse.urlencode(json.loads(call["content"])).encode()
    expected = hmac.new(b"s3cret", text, hashlib.sha512).hexdigest()
    assert call["headers"]["x-mcd-signature"] == expected
    assert expected in inbound.signature("s3cret", call["content"])


def test_receivers_keep_what_came_and_answer_like_slack():
    with receivers.slack() as slack:
        answer = httpx.post(slack.url, json={"text": "hello"}, trust_env=False)
        [call] = slack.wait_for(1, 5)
    assert (answer.status_code, answer.text) == (200, "ok")
    assert call.json() == {"text": "hello"}
    assert call.headers["content-type"] == "application/json"


def subscriber(kind: str) -> notices.Subscriber:
    client = SimpleNamespace(
        post=lambda _path, _body: {"id": "sub_1", "secret": SECRET if kind == "webhook" else None}
    )
    return notices.Subscriber(client, kind, receivers.Receiver("http://127.0.0.1:1/hook"))


def webhook_call(event: dict, secret: str = SECRET) -> receivers.Received:
    body = json.dumps(event)
    now = datetime.now(UTC)
    signature = Webhook(secret).sign("msg_1", now, body)
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": signature,
    }
    return receivers.Received(now, "/hook", headers, body.encode())


EVENT = {"id": "e1", "type": "lily.classification.attached"}


def test_a_signed_webhook_passes():
    subscriber("webhook").check(webhook_call(EVENT), EVENT)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (webhook_call(EVENT, "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), "does not verify"),
        (webhook_call({**EVENT, "id": "e2"}), "told event e2"),
        (
            webhook_call({**EVENT, "type": "lily.classification.detached"}),
            "told a lily.classification.detached",
        ),
        (receivers.Received(START, "/hook", {"webhook-signature": "nonsense"}, b"{}"), "does not verify"),
    ],
)
def test_a_wrong_webhook_does_not(call, message):
    with pytest.raises(DemoError, match=message):
        subscriber("webhook").check(call, EVENT)


def test_slack_has_to_say_what_happened():
    message = {"text": "customers.email is tagged PII", "blocks": [{"text": "e1"}]}
    subscriber("slack").check(receivers.Received(START, "/", {}, json.dumps(message).encode()), EVENT)
    for wrong in (
        {**message, "text": "something"},
        {**message, "blocks": []},
        {**message, "blocks": [{"text": "e9"}]},
    ):
        with pytest.raises(DemoError):
            subscriber("slack").check(receivers.Received(START, "/", {}, json.dumps(wrong).encode()), EVENT)


def test_hops_are_counted_from_the_post():
    hops = {
        name: START + timedelta(milliseconds=at) for name, at in [("posted", 0), ("sent", 7), ("received", 9)]
    }
    told = notices.Told(
        "attached", "webhook", "e1", notices._in_order(hops, START + timedelta(milliseconds=8))
    )
    assert told.milliseconds() == {"posted": 0, "sent": 7, "acknowledged": 8, "received": 9}
    assert told.total == 9


def test_repeated_history_is_folded_and_counted():
    rows = [{"type": "t", "source": "s", "data": {"n": n}} for n in (1, 2, 2, 2, 1)]
    assert [(row["data"]["n"], row["times"]) for row in report._folded(rows)] == [(1, 1), (2, 3), (1, 1)]


def test_the_sparks_key_is_not_on_its_command_line(tmp_path, monkeypatch):
    seen = {}

    def popen(command, **options):
        seen.update(command=command, environment=options["env"])
        return SimpleNamespace(pid=0)

    monkeypatch.setattr(spark_process.subprocess, "Popen", popen)
    monkeypatch.setattr(spark_process.jars, "paths", lambda name: f"/{name}.jar")
    spark_process.start(tmp_path, Shop("postgresql://u:p@127.0.0.1:1/shop"), "http://lily", "the-key")
    properties = tmp_path / "spark.properties"
    assert "the-key" in properties.read_text()
    assert properties.stat().st_mode & 0o077 == 0
    assert "the-key" not in " ".join([*seen["command"], seen["environment"]["PYSPARK_SUBMIT_ARGS"]])


def test_what_nobody_asked_for_is_not_waited_for(monkeypatch, tmp_path):
    waited = []
    monkeypatch.setattr(stack.control, "wait", lambda _config, names, *_more: waited.append(set(names)))
    running = stack.Stack(SimpleNamespace(home=tmp_path), None, True, None)
    running.wait_for()
    running.wait_for("api")
    assert waited == [set(registry.DEFAULT), {"api"}]
    assert waited[0].isdisjoint(registry.OPTIONAL)
    assert registry.OPTIONAL
