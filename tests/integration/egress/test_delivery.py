"""From `lily.notices` to receivers, through the real worker, Kafka and PostgreSQL."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from confluent_kafka import Consumer
from pytest_httpserver import HTTPServer
from standardwebhooks.webhooks import Webhook
from tests.integration.egress.conftest import ControlPlane
from tests.integration.egress.support import Tenant
from tests.support.egress import EgressProcess, event, tag
from tests.support.poll import until
from tests.support.receiver import ReceiverProcess
from tests.support.stack import Stack
from werkzeug import Request, Response

from lily_common.events import DLQ_CHANGES_TOPIC, DLQ_DELIVERIES_TOPIC, NOTICES_TOPIC
from lily_common.kafka import consumer_config

QN = "postgres://shop-db:5432/shop/public/customers/email"
pytestmark = pytest.mark.usefixtures("egress")


@pytest.fixture
def tenant(servers: Stack, control: ControlPlane, receiver: ReceiverProcess) -> Tenant:
    return Tenant(servers, control, receiver)


def read_topic(bootstrap: str, topic: str, wanted: int, keep: Any = lambda _: True) -> list[Any]:
    """Messages of `topic` from its start that `keep` wants, until there are `wanted`."""
    consumer = Consumer(
        consumer_config(
            bootstrap, f"test-{secrets.token_hex(4)}", **{"topic.metadata.refresh.interval.ms": 500}
        )
    )
    consumer.subscribe([topic])
    kept: list[Any] = []
    try:

        def enough() -> bool:
            for message in consumer.consume(500, 0.2):
                if message.error() is None and keep(message):
                    kept.append(message)
            return len(kept) >= wanted

        until(enough, f"{wanted} messages of {topic}", deadline=40)
    finally:
        consumer.close()
    return kept


def test_only_transitions_are_delivered_once_and_signed(tenant: Tenant) -> None:
    subscription = tenant.subscribe("hook", filters=[{"exact": {"data.tag": "PII"}}])
    tenant.notify(
        tag(QN, "PII"),
        tag(QN, "GDPR"),
        tag(QN, "PII"),  # asserted again
        tag(QN, "PII", origin="lineage:orders"),
        tag(QN, "PII", attached=False),  # one of two origins
        tag(QN, "PII", attached=False, origin="lineage:orders"),
        tag(QN, "PII"),
    )
    tenant.settled(subscription, 3)
    assert tenant.told("hook") == [("attached", "PII"), ("detached", "PII"), ("attached", "PII")]
    for arrival in tenant.arrivals("hook"):
        assert arrival.valid is True
        assert arrival.headers["content-type"].startswith("application/cloudevents+json")
        assert arrival.body["specversion"] == "1.0"
        assert arrival.body["subject"] == QN
        assert arrival.body["tenantid"] == tenant.name


def test_hops_and_attempts_can_be_read(tenant: Tenant) -> None:
    subscription = tenant.subscribe("hook")
    tenant.notify(tag(QN, "PII"))
    (delivery,) = tenant.settled(subscription, 1)
    detail = tenant.call("GET", f"/v1/deliveries/{delivery['id']}")
    hops = detail["hops"]
    order = ["accepted_at", "consumed_at", "committed_at", "sent_at", "finished_at"]
    assert [hops[name] for name in order] == sorted(hops[name] for name in order)
    assert hops["noticed_at"] is not None
    (attempt,) = detail["attempt_log"]
    assert (attempt["ok"], attempt["status_code"], attempt["number"]) == (True, 204, 1)
    assert attempt["duration_ms"] > 0
    assert detail["body"] == tenant.arrivals("hook")[0].body
    assert detail["id"] == tenant.arrivals("hook")[0].headers["webhook-id"]
    assert tenant.deliveries(asset=QN, event_id=delivery["event"]["id"], subscription=subscription["id"]) == [
        delivery
    ]
    assert tenant.deliveries(asset=QN + "x") == []


def test_failed_attempts_are_retried_under_one_id_and_recorded(tenant: Tenant) -> None:
    subscription = tenant.subscribe("hook", retry={"pauses": [0.2, 0.2, 0.2]})
    tenant.receiver.tell(f"{tenant.name}-hook", fail=2, status=503)
    tenant.notify(tag(QN, "PII"))
    (delivery,) = tenant.settled(subscription, 1)
    arrivals = tenant.arrivals("hook")
    assert [arrival.status for arrival in arrivals] == [503, 503, 204]
    assert {arrival.headers["webhook-id"] for arrival in arrivals} == {delivery["id"]}
    assert all(arrival.valid for arrival in arrivals)
    log = tenant.call("GET", f"/v1/deliveries/{delivery['id']}")["attempt_log"]
    assert [(a["number"], a["status_code"], a["ok"]) for a in log] == [
        (1, 503, False),
        (2, 503, False),
        (3, 204, True),
    ]


def test_order_per_asset_holds_over_retries_while_other_assets_go_on(tenant: Tenant) -> None:
    subscription = tenant.subscribe("hook", retry={"pauses": [1.0] * 20})
    first, other = "postgres://db/a", "postgres://db/b"
    tenant.receiver.tell(f"{tenant.name}-hook", refuse=first)
    tenant.notify(
        tag(first, "PII"),
        tag(first, "PII", attached=False),
        tag(first, "PII"),
        tag(first, "GDPR"),
        tag(other, "PII"),
        copies=1,
    )
    tenant.settled(subscription, 1)
    refused = until(lambda: [a for a in tenant.arrivals("hook") if a.status >= 300])
    assert {a.body["subject"] for a in refused} == {first}
    assert len({a.headers["webhook-id"] for a in refused}) == 1
    tenant.receiver.tell(f"{tenant.name}-hook", refuse=None)
    tenant.settled(subscription, 5)
    sent = [a for a in tenant.arrivals("hook") if a.status < 300]
    assert [(a.body["transition"], a.body["data"]["tag"]) for a in sent if a.body["subject"] == first] == [
        ("attached", "PII"),
        ("detached", "PII"),
        ("attached", "PII"),
        ("attached", "GDPR"),
    ]


def test_dead_letters_can_be_replayed(tenant: Tenant) -> None:
    subscription = tenant.subscribe("hook", retry={"pauses": [0.05]})
    tenant.receiver.tell(f"{tenant.name}-hook", fail=4, status=500)
    tenant.notify(tag(QN, "PII"), tag(QN, "PII", attached=False))
    dead = tenant.settled(subscription, 2, "dead")
    assert [delivery["attempts"] for delivery in dead] == [2, 2]
    copies = read_topic(
        tenant.bootstrap, DLQ_DELIVERIES_TOPIC, 2, lambda m: orjson.loads(m.value())["tenant"] == tenant.name
    )
    letter = orjson.loads(copies[0].value())
    assert letter["delivery_id"] == dead[0]["id"]
    assert letter["subscription_id"] == subscription["id"]
    assert letter["event"]["data"]["tag"] == "PII"
    assert letter["reason"] == "answered 500"
    assert tenant.call("POST", f"/v1/subscriptions/{subscription['id']}/replay-dead") == {"replayed": 2}
    tenant.settled(subscription, 2)
    assert tenant.told("hook") == [("attached", "PII"), ("detached", "PII")]
    assert {a.headers["webhook-id"] for a in tenant.arrivals("hook")} == {d["id"] for d in dead}


def test_a_delivery_can_be_sent_again(tenant: Tenant) -> None:
    subscription = tenant.subscribe("hook")
    tenant.notify(tag(QN, "PII"))
    (delivery,) = tenant.settled(subscription, 1)
    tenant.call("POST", f"/v1/deliveries/{delivery['id']}/retry")
    until(lambda: len(tenant.arrivals("hook")) == 2)
    assert len({arrival.headers["webhook-id"] for arrival in tenant.arrivals("hook")}) == 1
    until(lambda: len(tenant.call("GET", f"/v1/deliveries/{delivery['id']}")["attempt_log"]) == 2)


def test_gone_disables_and_resume_enables(tenant: Tenant) -> None:
    subscription = tenant.subscribe("hook")
    tenant.receiver.tell(f"{tenant.name}-hook", fail=1, status=410)
    tenant.notify(tag(QN, "PII"))
    tenant.settled(subscription, 1, "dead")

    def shown() -> dict[str, Any]:
        answer: dict[str, Any] = tenant.call("GET", f"/v1/subscriptions/{subscription['id']}")
        return answer

    until(lambda: shown()["status"] == "disabled")
    assert "410" in shown()["status_reason"]
    tenant.notify(tag(QN, "GDPR"))
    tenant.call("POST", f"/v1/subscriptions/{subscription['id']}/resume")
    tenant.call("POST", f"/v1/subscriptions/{subscription['id']}/replay-dead")
    tenant.settled(subscription, 1)
    assert tenant.told("hook") == [("attached", "PII")]


def test_pause_keeps_and_resume_delivers_in_order(tenant: Tenant) -> None:
    subscription = tenant.subscribe("hook")
    tenant.call("POST", f"/v1/subscriptions/{subscription['id']}/pause")
    tenant.notify(tag(QN, "PII"), tag(QN, "PII", attached=False), tag(QN, "GDPR"))
    tenant.settled(subscription, 3, "pending")
    assert tenant.arrivals("hook") == []
    tenant.call("POST", f"/v1/subscriptions/{subscription['id']}/resume")
    tenant.settled(subscription, 3)
    assert tenant.told("hook") == [("attached", "PII"), ("detached", "PII"), ("attached", "GDPR")]


def test_subscriptions_take_effect_from_their_answer_on(tenant: Tenant) -> None:
    for number in range(5):
        subscription = tenant.subscribe(f"hook{number}", filters=[{"suffix": {"subject": f"/{number}"}}])
        tenant.notify(tag(f"postgres://db/{number}", "PII"), copies=1)
        tenant.settled(subscription, 1)
    tenant.call(
        "PATCH",
        f"/v1/subscriptions/{subscription['id']}",
        json={"filters": [{"exact": {"data.tag": "GDPR"}}]},
    )
    tenant.notify(tag("postgres://db/4", "SECRET"), tag("postgres://db/4", "GDPR"), copies=1)
    tenant.settled(subscription, 2)
    assert tenant.told("hook4") == [("attached", "PII"), ("attached", "GDPR")]


def test_a_deleted_subscription_gets_nothing_more(tenant: Tenant) -> None:
    gone, kept = tenant.subscribe("gone"), tenant.subscribe("kept")
    tenant.call("DELETE", f"/v1/subscriptions/{gone['id']}")
    tenant.notify(tag(QN, "PII"))
    tenant.settled(kept, 1)
    assert tenant.arrivals("gone") == []
    assert (
        tenant.control.call("GET", f"/v1/subscriptions/{gone['id']}", tenant=tenant.name).status_code == 404
    )


def test_the_tenants_topic_has_each_transition_once_and_in_order(tenant: Tenant) -> None:
    events = []
    for turn in range(10):
        for asset in range(5):
            events.append(tag(f"postgres://db/{asset}", "PII", attached=turn % 2 == 0))
    tenant.notify(*events)
    messages = read_topic(tenant.bootstrap, f"lily.{tenant.name}.events", 50)
    bodies = [orjson.loads(message.value()) for message in messages]
    assert len({body["id"] for body in bodies}) == len(bodies) == 50
    for asset in range(5):
        qualified_name = f"postgres://db/{asset}"
        mine = [(m, b) for m, b in zip(messages, bodies, strict=True) if b["subject"] == qualified_name]
        assert [body["transition"] for _, body in mine] == ["attached", "detached"] * 5
        assert len({message.partition() for message, _ in mine}) == 1
        assert mine[0][0].key() == f"{tenant.name}|{qualified_name}".encode()


def test_a_delete_takes_back_tags(tenant: Tenant) -> None:
    subscription = tenant.subscribe("hook")
    tenant.notify(tag(QN, "PII"), event("asset.deleted", {"qualified_name": QN}), tag(QN, "GDPR"))
    tenant.settled(subscription, 4)
    assert tenant.told("hook") == [
        ("attached", "PII"),
        ("detached", "PII"),
        ("deleted", None),
        ("attached", "GDPR"),
    ]
    taken_back = tenant.arrivals("hook")[1].body
    assert taken_back["causeid"] == tenant.arrivals("hook")[2].body["id"]


def test_incidents_and_values(tenant: Tenant) -> None:
    subscription = tenant.subscribe("hook")
    incident = {"qualified_name": QN, "incident_id": "i1", "title": "no rows"}
    tenant.notify(
        event("incident.opened", incident),
        event("incident.opened", incident),
        event("incident.resolved", incident),
        event("owner.changed", {"qualified_name": QN, "owners": ["ann"]}),
        event("owner.changed", {"qualified_name": QN, "owners": ["ann"]}),
        event("description.changed", {"qualified_name": QN, "description": "é\u2028😀"}),
    )
    tenant.settled(subscription, 4)
    assert [name for name, _ in tenant.told("hook")] == ["opened", "resolved", "changed", "changed"]
    assert all(arrival.valid for arrival in tenant.arrivals("hook"))


def test_a_repeat_with_another_time_is_a_repeat(tenant: Tenant) -> None:
    """A client that leaves the time out and sends again: the second acceptance is later, the event the same."""
    subscription = tenant.subscribe("hook")
    first = tag(QN, "PII")
    tenant.notify(first)
    tenant.notify(tag(QN, "PII", attached=False))
    tenant.notify(first)
    tenant.notify(tag(QN, "PII"))
    tenant.settled(subscription, 3)
    assert tenant.told("hook") == [("attached", "PII"), ("detached", "PII"), ("attached", "PII")]


def test_during_a_rotation_both_secrets_verify(tenant: Tenant) -> None:
    subscription = tenant.subscribe("hook")
    rotated = tenant.call(
        "POST", f"/v1/subscriptions/{subscription['id']}/rotate-secret", json={"grace_seconds": 60}
    )
    assert rotated["secret"] != subscription["secret"]
    tenant.notify(tag(QN, "PII"))
    tenant.settled(subscription, 1)
    arrival = tenant.arrivals("hook")[0]
    assert arrival.valid is True, "checked with the old secret"
    tenant.receiver.tell(f"{tenant.name}-hook", secret=rotated["secret"])
    tenant.call("POST", f"/v1/subscriptions/{subscription['id']}/rotate-secret", json={"grace_seconds": 0})
    tenant.notify(tag(QN, "GDPR"))
    tenant.settled(subscription, 2)
    assert tenant.arrivals("hook")[1].valid is False, "without a grace the old secret is gone"


def test_a_test_event_is_delivered_whatever_the_filters(tenant: Tenant) -> None:
    subscription = tenant.subscribe("hook", filters=[{"exact": {"data.tag": "never"}}])
    sent = tenant.call("POST", f"/v1/subscriptions/{subscription['id']}/test")
    (delivery,) = tenant.settled(subscription, 1)
    assert delivery["id"] == sent["delivery_id"]
    assert tenant.arrivals("hook")[0].body["type"] == "lily.subscription.test"
    assert tenant.arrivals("hook")[0].valid is True


def test_an_unreadable_notice_goes_to_the_dead_letters_and_costs_no_other(
    tenant: Tenant, egress: EgressProcess
) -> None:
    from confluent_kafka import Producer

    subscription = tenant.subscribe("hook")
    mark = secrets.token_hex(8)
    poison = orjson.dumps(
        {
            "specversion": "1.0",
            "id": mark,
            "source": "s",
            "type": "lily.classification.attached",
            "subject": "q",
            "tenantid": tenant.name,
            "stateversion": "1.2.s x",
            "acceptedtime": "2026-05-01T00:00:00.000000Z",
            "data": {"qualified_name": "q", "tag": "a\u0000b"},
        }
    )
    producer = Producer({"bootstrap.servers": tenant.bootstrap})
    for value in (f"not json {mark}".encode(), poison):
        producer.produce(NOTICES_TOPIC, value)
    producer.flush()
    tenant.notify(tag(QN, "PII"))
    tenant.settled(subscription, 1)
    refused = read_topic(tenant.bootstrap, DLQ_CHANGES_TOPIC, 2, lambda m: mark.encode() in m.value())
    assert all(dict(message.headers())["reason"] for message in refused)
    assert egress.ready()


@pytest.fixture
def slow(httpserver: HTTPServer) -> Iterator[threading.Event]:
    """A receiver that does not answer until the event is set."""
    gate = threading.Event()

    def wait(_request: Request) -> Response:
        gate.wait(30)
        return Response("")

    httpserver.expect_request("/slow").respond_with_handler(wait)
    yield gate
    gate.set()


def test_a_slow_receiver_delays_no_other(
    tenant: Tenant, slow: threading.Event, httpserver: HTTPServer
) -> None:
    stuck = tenant.subscribe(url=httpserver.url_for("/slow"), timeout_seconds=30)
    quick = tenant.subscribe("hook")
    tenant.notify(*(tag(f"postgres://db/{n}", "PII") for n in range(200)))
    tenant.settled(quick, 100)
    assert tenant.deliveries(subscription=stuck["id"], status="delivered") == []
    slow.set()
    until(lambda: not tenant.deliveries(subscription=stuck["id"], status="pending"))


def test_redirects_count_as_failures_and_retry_after_is_honoured(
    tenant: Tenant, httpserver: HTTPServer
) -> None:
    httpserver.expect_ordered_request("/r").respond_with_data(
        "", 302, headers={"Location": "http://127.0.0.1:1/"}
    )
    httpserver.expect_ordered_request("/r").respond_with_data("", 429, headers={"Retry-After": "2"})
    httpserver.expect_ordered_request("/r").respond_with_data("", 200)
    subscription = tenant.subscribe(url=httpserver.url_for("/r"), retry={"pauses": [0.01, 0.01]})
    tenant.notify(tag(QN, "PII"))
    (delivery,) = tenant.settled(subscription, 1)
    log = tenant.call("GET", f"/v1/deliveries/{delivery['id']}")["attempt_log"]
    assert [attempt["status_code"] for attempt in log] == [302, 429, 200]
    from datetime import datetime

    sent = [datetime.fromisoformat(attempt["sent_at"]) for attempt in log]
    assert (sent[2] - sent[1]).total_seconds() >= 2.0


def test_slack_gets_block_kit(tenant: Tenant, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/services/T/B/X").respond_with_data("ok")
    url = httpserver.url_for("/services/T/B/X")
    made = tenant.call(
        "POST", "/v1/subscriptions", json={"name": "chat", "sink": {"kind": "slack", "url": url}}
    )
    assert made["secret"] is None
    assert url not in str(made)
    tenant.notify(tag(QN, "PII"))
    tenant.settled(made, 1)
    (request, _), *_ = httpserver.log
    assert request.json["text"] == "customers.email is tagged PII"
    assert request.json["blocks"][0]["type"] == "header"


def test_reference_library_verifies_the_bytes_that_arrive(tenant: Tenant, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/raw").respond_with_data("")
    subscription = tenant.subscribe(url=httpserver.url_for("/raw"))
    tenant.notify(tag("postgres://db/ünïcode/😀", "PII"))
    tenant.settled(subscription, 1)
    (request, _), *_ = httpserver.log
    Webhook(subscription["secret"]).verify(request.get_data(), dict(request.headers))
