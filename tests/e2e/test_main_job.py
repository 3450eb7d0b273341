"""The main job through all of Lily once: events in; notices, state, lineage, history and stream out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
import orjson
import pytest

from tests.support.poll import until
from tests.support.receiver import ReceiverProcess
from tests.support.stack import Stack
from tests.support.tenant import Tenant, event
from tests.support.verdict import settle

pytestmark = pytest.mark.stack

SHOP = "postgres://shop-db:5432/shop/public"
CUSTOMERS = f"{SHOP}/customers"
EMAIL = f"{CUSTOMERS}/email"
ORDERS = f"{SHOP}/orders"
MART = "postgres://shop-db:5432/shop/marts/revenue"


@dataclass
class Story:
    """What was sent, once for the module, and where it was to arrive."""

    tenant: Tenant
    subscription: str
    before_tag: str
    tag: dict[str, Any]


@pytest.fixture(scope="module")
def story(tenant: Tenant, receiver: ReceiverProcess) -> Story:
    """A small shop: tables, a column, lineage, an incident, then a tag."""
    subscription = tenant.subscribe("hook", receiver)
    tenant.subscribe("slack", receiver, kind="slack", types=["lily.classification.attached"])
    described = [
        event(
            "asset.upserted", {"qualified_name": name, "asset_type": "table", "name": name.rsplit("/", 1)[1]}
        )
        for name in (CUSTOMERS, ORDERS, MART)
    ]
    column = {"qualified_name": EMAIL, "asset_type": "column", "name": "email", "parent": CUSTOMERS}
    edges = [
        event(
            "lineage.edge.added", {"upstream": upstream, "downstream": MART, "via": "job://nightly/revenue"}
        )
        for upstream in (CUSTOMERS, ORDERS)
    ]
    incident = {
        "qualified_name": ORDERS,
        "incident_id": "mc-1",
        "title": "no rows for 6 hours",
        "severity": "SEV-2",
    }
    tenant.send(*described, event("asset.upserted", column), *edges, event("incident.opened", incident))
    tagged = event("classification.attached", {"qualified_name": EMAIL, "tag": "PII", "origin": "scanner"})
    entries = until(lambda: tenant.get(f"/v1/assets/{quote(EMAIL, safe='')}/history")["items"])
    tenant.send(tagged)
    return Story(tenant, subscription, entries[0]["accepted_time"], tagged)


def asset(tenant: Tenant, name: str, **params: Any) -> Any:
    return tenant.get(f"/v1/assets/{quote(name, safe='')}", **params)


def tags(view: dict[str, Any]) -> list[str]:
    return [held["tag"] for held in view["tags"]]


def test_everything_promised_is_kept(story: Story, stack: Stack, receiver: ReceiverProcess) -> None:
    verdict = settle(stack, story.tenant.ledger, receiver)
    assert (verdict.demanded, verdict.uncertain) == (1, 0)


def test_the_webhook_is_signed_and_says_what_changed(story: Story, receiver: ReceiverProcess) -> None:
    path = story.tenant.path("hook")

    def told() -> list[Any]:
        return [a for a in receiver.arrivals(path) if a.body["id"] == story.tag["id"]]

    (arrival,) = until(told)
    assert arrival.valid
    assert arrival.body["transition"] == "attached"
    assert arrival.body["data"] == story.tag["data"]
    assert arrival.body["tenantid"] == story.tenant.id
    assert arrival.headers["content-type"].startswith("application/cloudevents+json")


def test_the_slack_receiver_gets_block_kit(story: Story, receiver: ReceiverProcess) -> None:
    (arrival,) = until(lambda: receiver.arrivals(story.tenant.path("slack")))
    assert arrival.body["text"]
    assert {block["type"] for block in arrival.body["blocks"]} >= {"header", "section"}
    assert "PII" in str(arrival.body)


def test_the_asset_is_read_by_key(story: Story) -> None:
    view = until(lambda: v if tags(v := asset(story.tenant, EMAIL)) else None)
    assert (view["asset_type"], view["name"], view["parent"]) == ("column", "email", CUSTOMERS)
    assert view["tags"][0]["origins"][0]["origin"] == "scanner"
    assert view["answered_from"] == "mirror"
    # A path segment for segment says the same as one that is percent-encoded as a whole.
    assert story.tenant.get(f"/v1/assets/{EMAIL}") == view


def test_assets_are_listed_by_type_tag_parent_and_words(story: Story) -> None:
    def names(**params: Any) -> list[str]:
        return [item["qualified_name"] for item in story.tenant.get("/v1/assets", **params)["items"]]

    assert until(lambda: names(tag="PII")) == [EMAIL]
    assert names(parent=CUSTOMERS) == [EMAIL]
    assert names(q="customers email") == [EMAIL]
    assert set(names(type="table")) >= {CUSTOMERS, ORDERS, MART}


def test_pages_join_without_gap_or_repeat(story: Story) -> None:
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = story.tenant.get("/v1/assets", limit=1, **({"cursor": cursor} if cursor else {}))
        seen += [item["qualified_name"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) >= 4


def test_lineage_is_walked(story: Story) -> None:
    def upstream() -> set[tuple[str, str]]:
        view = story.tenant.get(f"/v1/assets/{quote(MART, safe='')}/lineage", direction="upstream")
        return {(edge["upstream"], edge["downstream"]) for edge in view["edges"]}

    assert until(upstream) == {(CUSTOMERS, MART), (ORDERS, MART)}


def test_the_incident_hangs_on_its_table(story: Story) -> None:
    (found,) = until(lambda: story.tenant.get(f"/v1/assets/{quote(ORDERS, safe='')}/incidents")["items"])
    assert (found["incident_id"], found["title"], found["open"]) == ("mc-1", "no rows for 6 hours", True)


def test_history_and_the_past_come_from_the_lake(story: Story) -> None:
    path = f"/v1/assets/{quote(EMAIL, safe='')}/history"
    kinds = until(lambda: k if len(k := [e["type"] for e in story.tenant.get(path)["items"]]) > 1 else None)
    assert kinds == ["lily.classification.attached", "lily.asset.upserted"]
    then = asset(story.tenant, EMAIL, as_of=story.before_tag)
    assert (then["answered_from"], then["tags"], then["name"]) == ("lake", [], "email")


def test_deliveries_and_their_attempts_are_readable(story: Story) -> None:
    def delivered() -> Any:
        items = story.tenant.get("/v1/deliveries", subscription=story.subscription, event_id=story.tag["id"])
        return [item for item in items["items"] if item["status"] == "delivered"]

    (delivery,) = until(delivered)
    detail = story.tenant.get(f"/v1/deliveries/{delivery['id']}")
    assert [attempt["ok"] for attempt in detail["attempt_log"]] == [True]
    moments = [
        detail["hops"][hop]
        for hop in ("accepted_at", "consumed_at", "committed_at", "sent_at", "finished_at")
    ]
    assert moments == sorted(moments)


def test_a_receiver_that_fails_is_tried_again_under_one_id(tenant: Tenant, receiver: ReceiverProcess) -> None:
    flaky = tenant.subscribe("flaky", receiver, retry={"pauses": [0.1, 0.1, 0.1]})
    receiver.tell(tenant.path("flaky"), fail=2, status=503)
    tenant.send(event("classification.attached", {"qualified_name": ORDERS, "tag": "FINANCE"}))
    arrivals = until(lambda: a if len(a := receiver.arrivals(tenant.path("flaky"))) == 3 else None)
    assert [arrival.status for arrival in arrivals] == [503, 503, 204]
    assert len({arrival.headers["webhook-id"] for arrival in arrivals}) == 1
    assert len({arrival.headers["webhook-signature"] for arrival in arrivals}) >= 1

    def log() -> Any:
        (item,) = tenant.get("/v1/deliveries", subscription=flaky)["items"]
        detail = tenant.get(f"/v1/deliveries/{item['id']}")
        return detail["attempt_log"] if detail["status"] == "delivered" else None

    assert [attempt["status_code"] for attempt in until(log)] == [503, 503, 204]


def test_a_dead_delivery_is_replayed_under_its_id(tenant: Tenant, receiver: ReceiverProcess) -> None:
    dying = tenant.subscribe("dying", receiver, retry={"pauses": [0.05]})
    receiver.tell(tenant.path("dying"), fail=2, status=500)
    tenant.send(event("classification.attached", {"qualified_name": ORDERS, "tag": "LEGAL"}))
    (dead,) = until(lambda: tenant.get("/v1/deliveries", subscription=dying, status="dead")["items"])
    assert tenant.client.post(f"/v1/deliveries/{dead['id']}/retry").status_code == 202
    until(lambda: tenant.get("/v1/deliveries", subscription=dying, status="delivered")["items"])
    assert {arrival.headers["webhook-id"] for arrival in receiver.arrivals(tenant.path("dying"))} == {
        dead["id"]
    }


def frames(answer: httpx.Response) -> Iterator[dict[str, str]]:
    """Server-sent events of a response that is still coming; comments are left out."""
    frame: dict[str, str] = {}
    for line in answer.iter_lines():
        if not line:
            if "data" in frame:
                yield frame
            frame = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            frame[name] = value


def test_the_stream_goes_on_from_the_last_event_id(stack: Stack) -> None:
    own = stack.new_tenant()
    names = [f"{SHOP}/streamed_{number}" for number in range(4)]

    def tag(name: str) -> None:
        own.send(event("classification.attached", {"qualified_name": name, "tag": "PII"}))

    tag(names[0])
    until(lambda: own.get("/v1/deliveries", status="delivered")["items"], "the tenant's topic to be written")
    with own.client.stream("GET", "/v1/stream", headers={"Last-Event-ID": "0"}, timeout=60) as answer:
        if answer.status_code != 200:
            answer.read()
        assert answer.status_code == 200, answer.text
        tag(names[1])
        seen = []
        for frame in frames(answer):
            seen.append(frame)
            # Assets are in partitions of their own: which of the two comes first is not said.
            if all(any(name in one["data"] for one in seen) for name in names[:2]):
                break
    tag(names[2])
    with own.client.stream(
        "GET", "/v1/stream", headers={"Last-Event-ID": seen[-1]["id"]}, timeout=60
    ) as answer:
        following = next(frames(answer))
    assert names[2] in following["data"]


def test_the_tenants_topic_has_each_transition_in_order(stack: Stack, tenant: Tenant) -> None:
    """Read by a plain Kafka consumer; per asset the order is that of the changes."""
    table = f"{SHOP}/ordered"
    sent = []
    for number in range(6):
        kind = "classification.attached" if number % 2 == 0 else "classification.detached"
        sent.append(event(kind, {"qualified_name": table, "tag": "PII"}))
        tenant.send(sent[-1])

    def ids() -> list[str]:
        messages = stack.log.read(f"lily.{tenant.id}.events")
        bodies = [orjson.loads(message.value() or b"{}") for message in messages]
        return [body["id"] for body in bodies if body["subject"] == table]

    until(lambda: ids() == [item["id"] for item in sent], "all six in the tenant's topic")
