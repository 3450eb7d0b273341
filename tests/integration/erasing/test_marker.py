"""A marker planted through the public API, found in every store by decoding its files, and nowhere after the erasure."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from jose import jwt
from tests.support.poll import until
from tests.support.receiver import ReceiverProcess
from tests.support.stack import Stack
from tests.support.stores import EVENTS, RAW, SILVER
from tests.support.tenant import Tenant, event
from tests.support.traces import lake, traces

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]
_SHORT = {"retention.ms": "1000", "segment.ms": "1000", "file.delete.delay.ms": "1000"}
_SCHEMA = "postgres://shop-db:5432/shop/public"
_COLUMNS = ["id", "source", "type", "subject", "version", "event", "accepted_time", "commit"]


def _plant(stack: Stack, tenant: Tenant, receiver: ReceiverProcess, word: str) -> str:
    """An asset with tags, an incident, an edge, deliveries that fail; returns its name once all of it has settled."""
    name, other = f"{_SCHEMA}/{word}", f"{_SCHEMA}/orders"
    receiver.tell(tenant.path("failing"), fail=1000)
    tenant.subscribe("failing", receiver, retry={"pauses": [0.1]})
    tenant.send(
        event("asset.upserted", {"qualified_name": other, "asset_type": "table", "description": "stays"}),
        event(
            "asset.upserted",
            {
                "qualified_name": name,
                "asset_type": "table",
                "description": f"about {word}",
                "owners": ["o@x.io"],
            },
        ),
        event("classification.attached", {"qualified_name": name, "tag": "PII"}),
        event("classification.attached", {"qualified_name": other, "tag": "PII"}),
        event("incident.opened", {"qualified_name": name, "incident_id": "i1", "title": f"{word} is late"}),
        event("lineage.edge.added", {"upstream": name, "downstream": other}),
    )
    until(lambda: len(stack.lake.rows(RAW, tenant.id, ["request_id"])) >= 1, "the raw archive", deadline=60)
    until(lambda: len(stack.lake.bronze(tenant.id)) >= 6, "bronze", deadline=60)
    until(lambda: _dead(tenant) >= 2, "dead deliveries", deadline=60)
    for table in (EVENTS, SILVER):
        stack.lake.table(table).create_checkpoint()
    return name


def _dead(tenant: Tenant) -> int:
    return len(tenant.get("/v1/deliveries", status="dead", limit=100)["items"])


def _others(stack: Stack, tenant: Tenant) -> list[dict[str, Any]]:
    """Bronze's rows about other assets that do not name the erased one: their history and playback."""
    rows = stack.lake.rows(EVENTS, tenant.id, _COLUMNS)
    kept = [row for row in rows if row["subject"].endswith("/orders") and "edge" not in row["type"]]
    return sorted(kept, key=lambda row: str(row["version"]))


def _erase(tenant: Tenant, name: str) -> str:
    answer = tenant.client.post("/v1/erasures", json={"asset": name, "descendants": True})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def _reached(tenant: Tenant, erasure: str, status: str) -> bool:
    view = tenant.get(f"/v1/erasures/{erasure}")
    assert view["status"] != "failed", view
    order = ["accepted", "running", "applied", "completed"]
    return order.index(view["status"]) >= order.index(status)


def _touched(tenant: Tenant, erasure: str, store: str) -> bool:
    return store in tenant.get(f"/v1/erasures/{erasure}")["removed"]


@contextmanager
def _forgetful(stack: Stack) -> Iterator[None]:
    """Topics that forget within seconds; afterwards as they were, for whoever uses the stack next."""
    admin = AdminClient({"bootstrap.servers": stack.environment["KAFKA_BOOTSTRAP"]})
    compacted = ("lily.erasures", "lily.tenants", "lily.tables", "lily.cdc-sources")
    named = admin.list_topics(timeout=15).topics
    topics = [topic for topic in named if not topic.startswith("__") and topic not in compacted]
    wanted = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    before = {
        asked.name: {name: str(held.result(15)[name].value) for name in _SHORT}
        for asked, held in admin.describe_configs(wanted).items()
    }
    try:
        _configure(admin, dict.fromkeys(topics, _SHORT))
        yield
    finally:
        _configure(admin, before)


def _configure(admin: AdminClient, topics: Mapping[str, Mapping[str, str]]) -> None:
    for topic, values in topics.items():
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in values.items()
        ]
        change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        admin.incremental_alter_configs([change])[change].result(15)


def test_a_marker_is_in_every_store_and_then_in_none(stack: Stack, receiver: ReceiverProcess) -> None:
    tenant, word = stack.new_tenant(), f"mk{secrets.token_hex(8)}"
    name = _plant(stack, tenant, receiver, word)
    before = traces(stack, word)
    kinds = {place.partition(":")[0] for place in before}
    assert kinds == {"lake", "volume", "mongo", "postgres", "kafka"}, sorted(before)
    held = "\n".join(sorted(before))
    for expected in (
        "lake:lily-lake/bronze/events/",
        "lake:lily-lake/bronze/events/_delta_log/",
        ".checkpoint.",
        "lake:lily-lake/bronze/raw/",
        "lake:lily-lake/silver/assets/",
        "mongo:lily.assets",
        "mongo:lily.incidents",
        "mongo:lily.edges",
        "mongo:local.oplog.rs",
        "postgres:notices",
        "kafka:lily.raw",
        "kafka:lily.changes.priority",
        "kafka:lily.notices",
        "kafka:lily.dlq.deliveries",
        f"kafka:lily.{tenant.id}.events",
    ):
        assert expected in held, f"{expected} is not among\n{held}"
    others = _others(stack, tenant)
    assert len(others) == 2

    with _forgetful(stack):
        erasure = _erase(tenant, name)
        late = tenant.client.post(
            "/v1/events", json=event("classification.attached", {"qualified_name": name, "tag": "X"})
        )
        assert (late.status_code, late.json()["type"]) == (422, "urn:lily:problem:erased")
        until(lambda: _reached(tenant, erasure, "applied"), "the erasure to be applied", deadline=240)
        left = {place for place in traces(stack, word) if not place.startswith("kafka:")}
        assert not left, sorted(left)
        assert not {place for place in traces(stack, word) if "dlq" in place}
        assert _others(stack, tenant) == others
        assert tenant.client.get(f"/v1/assets/{name}").status_code == 404
        assert tenant.get(f"/v1/assets/{_SCHEMA}/orders")["tags"]

        until(lambda: _reached(tenant, erasure, "completed"), "the erasure to be completed", deadline=240)
        assert not traces(stack, word)
    report = tenant.get(f"/v1/erasures/{erasure}/report")
    claims = jwt.decode(report["jws"], tenant.get("/.well-known/jwks.json"), algorithms=["RS256"])
    assert claims["erasure"]["status"] == "completed"
    assert claims["erasure"]["removed"]["lake bronze/events"]["rows"] >= 4
    assert word not in str(claims)


def test_killed_again_and_again_it_ends_the_same(stack: Stack, receiver: ReceiverProcess) -> None:
    tenant, word = stack.new_tenant(), f"mk{secrets.token_hex(8)}"
    name = _plant(stack, tenant, receiver, word)
    others = _others(stack, tenant)
    erasure = _erase(tenant, name)
    # In the middle of the first round, and in the grace after it.
    for store in ("lake bronze/raw", "mirror assets"):
        until(partial(_touched, tenant, erasure, store), f"{store} to be touched", deadline=240)
        stack.wait_restarted("lake", stack.kill("lake"))
    until(lambda: _reached(tenant, erasure, "applied"), "the erasure to be applied", deadline=300)
    left = {place for place in traces(stack, word) if not place.startswith("kafka:")}
    assert not left, sorted(left)
    assert _others(stack, tenant) == others
    assert any(place for place, _ in lake(stack))
