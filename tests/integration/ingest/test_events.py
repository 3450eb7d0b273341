"""`POST /v1/events` over real Kafka: what is answered is what is there."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx
import pytest
from tests.support.tenant import Tenant, event

from .conftest import Watch

pytestmark = pytest.mark.stack
ONE, MANY, JSON = "application/cloudevents+json", "application/cloudevents-batch+json", "application/json"
QN = "postgres://shop-db:5432/shop/public/customers"


def tag(**attributes: Any) -> dict[str, Any]:
    return event("classification.attached", {"qualified_name": f"{QN}/email", "tag": "PII"}) | attributes


def column() -> dict[str, Any]:
    return event("asset.upserted", {"qualified_name": f"{QN}/email", "asset_type": "column", "unknown": [1]})


def post(tenant: Tenant, body: Any, content_type: str = JSON, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return tenant.client.post(
        "/v1/events", content=content, headers={"content-type": content_type, **headers}
    )


def test_one_event_is_on_its_lane_as_it_was_said(tenant: Tenant, watch: Watch) -> None:
    sent = tag(traceparent="00-1-2-01", myext="kept")
    answer = post(tenant, sent, ONE)
    assert answer.status_code == 202
    assert answer.json() == {
        "id": sent["id"],
        "status": "accepted",
        "lane": "priority",
        "topic": "lily.changes.priority",
    }
    (change,) = watch.changes()
    assert change["_topic"] == "lily.changes.priority"
    assert change["_key"] == change["partitionkey"] == f"{tenant.id}|{QN}/email"
    assert change["data"] == sent["data"]
    assert (change["traceparent"], change["myext"]) == ("00-1-2-01", "kept")
    assert change["requestid"] == answer.headers["x-request-id"]
    assert change["stateversion"].endswith(f"/tests {sent['id']}")


def test_the_request_is_archived_without_its_secrets(tenant: Tenant, watch: Watch) -> None:
    body = json.dumps(tag()).encode()
    answer = post(tenant, body, ONE, **{"cookie": "a=b", "x-hub-signature": "c", "user-agent": "scanner/1"})
    (record,) = watch.raw()
    assert record["body"] == body
    assert record["key"] == answer.headers["x-request-id"]
    assert record["path"] == "/v1/events"
    assert record["received_time"].endswith("Z")
    kept = record["headers"]
    assert kept["user-agent"] == "scanner/1"
    assert {kept["authorization"], kept["cookie"], kept["x-hub-signature"]} == {"[redacted]"}
    assert tenant.key not in json.dumps(record, default=str)


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_a_batch_has_a_verdict_per_item(tenant: Tenant, watch: Watch, encoding: str) -> None:
    good = [tag(), column()]
    batch = [good[0], tag(type="lily.unheard.of"), 5, good[1], tag(data={"tag": "PII"}), good[0]]
    body = json.dumps(batch).encode()
    content = gzip.compress(body) if encoding == "gzip" else body
    answer = post(tenant, content, MANY, **{"content-encoding": encoding})
    assert answer.status_code == 207
    told = answer.json()
    assert (told["accepted"], told["rejected"]) == (3, 3)
    assert [item["status"][0] for item in told["items"]] == list("arrara")
    assert [item["index"] for item in told["items"]] == list(range(6))
    assert told["items"][3]["lane"] == "bulk"
    assert told["items"][1]["problem"]["errors"][0]["field"] == "type"
    assert "data.qualified_name" in {error["field"] for error in told["items"][4]["problem"]["errors"]}
    changes = watch.changes()
    assert sorted(change["id"] for change in changes) == sorted([good[0]["id"], good[0]["id"], good[1]["id"]])
    assert {change["data"]["unknown"][0] for change in changes if "unknown" in change["data"]} == {1}
    (record,) = watch.raw()
    assert record["body"] == body


def test_all_good_is_202_and_all_bad_is_422(tenant: Tenant, watch: Watch) -> None:
    assert post(tenant, [tag(), column()], MANY).status_code == 202
    refused = post(tenant, [tag(specversion="0.3")], MANY)
    assert refused.status_code == 422
    assert refused.json()["items"][0]["problem"]["status"] == 422
    assert post(tenant, [], MANY).json() == {"accepted": 0, "rejected": 0, "items": []}
    assert len(watch.changes()) == 2
    assert len(watch.raw()) == 3, "what was refused is archived too, so that a wrong refusal can be set right"


def test_plain_json_is_one_or_many(tenant: Tenant, watch: Watch) -> None:
    assert post(tenant, tag()).json()["status"] == "accepted"
    assert post(tenant, [tag()]).json()["accepted"] == 1
    assert post(tenant, b" \n [" + json.dumps(tag()).encode() + b"]").json()["accepted"] == 1
    assert len(watch.changes()) == 3


def test_binary_mode(tenant: Tenant, watch: Watch) -> None:
    answer = post(
        tenant,
        {"qualified_name": QN, "tag": "GDPR"},
        **{
            "ce-specversion": "1.0",
            "ce-id": "50%25 %E2%82%AC",
            "ce-source": '"/quoted\\"source"',
            "ce-type": "lily.classification.attached",
            "ce-time": "2026-01-15T18:10:00Z",
            "ce-myext": "x",
        },
    )
    assert answer.status_code == 202, answer.text
    (change,) = watch.changes()
    assert (change["id"], change["source"], change["myext"]) == ("50% €", '/quoted"source', "x")
    assert change["time"] == "2026-01-15T18:10:00.000000Z"
    assert change["data"] == {"qualified_name": QN, "tag": "GDPR"}


@pytest.mark.parametrize("spoiler", [{"x-request-id": "mine-1"}, {"content-type": f"{JSON}; charset=utf-8"}])
def test_the_ordinary_way_answers_as_the_fast_one(
    tenant: Tenant, watch: Watch, spoiler: dict[str, str]
) -> None:
    """The same request, once so that it is recognised ahead of the framework, once so that it is not."""
    for body in (tag(), [tag(), column()]):
        post(tenant, body)  # the caller is known from here on
        fast = post(tenant, body)
        ordinary = post(tenant, body, **spoiler)
        assert fast.json() == ordinary.json()
        assert fast.status_code == ordinary.status_code
        assert fast.headers["content-type"] == ordinary.headers["content-type"]
    sent = {"requestid", "acceptedtime"}
    seen: dict[str, list[dict[str, Any]]] = {}
    for change in watch.changes():
        seen.setdefault(change["id"], []).append({k: v for k, v in change.items() if k not in sent})
    for copies in seen.values():
        assert len(copies) == 3
        assert copies[0] == copies[1] == copies[2]


def test_the_metrics_count_what_came_and_why_it_was_refused(tenant: Tenant) -> None:
    post(tenant, [tag(), tag(type="x")], MANY)
    metrics = tenant.client.get("/metrics").text
    assert 'lily_ingest_accepted_total{lane="priority",way="events"}' in metrics
    assert 'lily_ingest_rejected_total{reason="invalid-input",way="events"}' in metrics
