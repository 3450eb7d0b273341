"""Connectors and their webhooks: the vendor's signature decides, for its own tenant, while the connector is active."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
import urllib.parse
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook
from tests.support.stack import Stack
from tests.support.tenant import Tenant

from lily_connectors.vendors import montecarlo

from .conftest import Watch

pytestmark = pytest.mark.stack
FIXTURES = Path(montecarlo.__path__[0]) / "fixtures" / "in"
TABLE = "postgres://shop-db:5432/shop/public/customers"


def incident(case: str) -> bytes:
    return (FIXTURES / f"incident.{case}.json").read_bytes()


def connector(tenant: Tenant, kind: str = "montecarlo", **config: Any) -> dict[str, Any]:
    if kind == "montecarlo":
        config = {"namespace": "postgres://shop-db:5432"} | config
    answer = tenant.client.post(
        "/v1/connectors", json={"kind": kind, "name": f"{kind} {time.time_ns()}", "config": config}
    )
    assert answer.status_code == 201, answer.text
    assert answer.headers["cache-control"] == "no-store"
    made: dict[str, Any] = answer.json()
    return made


def signed(secret: str, body: bytes) -> dict[str, str]:
    """As Monte Carlo documents it."""
    encoded = urllib.parse.urlencode(json.loads(body)).encode("utf8")
    return {"x-mcd-signature": hmac.new(secret.encode(), encoded, hashlib.sha512).hexdigest()}


def call(made: dict[str, Any], body: bytes, headers: dict[str, str]) -> httpx.Response:
    """Without any credential of Lily's."""
    return httpx.post(
        made["webhook_url"], content=body, headers=headers | {"content-type": "application/json"}, timeout=30
    )


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, str(answer.json()["type"]).rsplit(":", 1)[-1]


def test_a_signed_incident_hangs_on_its_table_and_is_resolved(tenant: Tenant, watch: Watch) -> None:
    made = connector(tenant)
    for case in ("opened__anomaly", "updated__acknowledged", "resolved__fixed"):
        body = incident(case)
        started = time.monotonic()
        answer = call(made, body, signed(made["secret"], body))
        assert answer.status_code == 200, answer.text
        assert answer.json() == {"event_type": f"incident.{case.split('__')[0]}", "accepted": 1}
        assert time.monotonic() - started < 3
    changes = sorted(watch.changes(), key=lambda change: str(change["time"]))
    assert [change["type"].rsplit(".", 1)[1] for change in changes] == ["opened", "updated", "resolved"]
    assert {change["subject"] for change in changes} == {TABLE}
    assert {change["source"] for change in changes} == {f"urn:lily:connector:{made['id']}"}
    assert len({change["data"]["incident_id"] for change in changes}) == 1
    assert {change["lane"] for change in changes} == {"priority"}
    archived = watch.raw()
    assert len(archived) == 3
    assert {record["headers"]["x-mcd-signature"] for record in archived} == {"[redacted]"}


def test_the_same_call_again_has_the_same_identity(tenant: Tenant, watch: Watch) -> None:
    made, body = connector(tenant), incident("opened__anomaly")
    for _ in range(2):
        assert call(made, body, signed(made["secret"], body)).status_code == 200
    assert len({(change["source"], change["id"]) for change in watch.changes()}) == 1


def test_unsigned_and_wrongly_signed_calls_are_401(tenant: Tenant, watch: Watch) -> None:
    made, body = connector(tenant), incident("opened__anomaly")
    assert code(call(made, body, {})) == (401, "signature-missing")
    assert code(call(made, body, signed("wrong", body))) == (401, "signature-invalid")
    changed = body.replace(b"42 rows", b"43 rows")
    assert code(call(made, changed, signed(made["secret"], body))) == (401, "signature-invalid")
    other = connector(tenant)
    assert code(call(other, body, signed(made["secret"], body))) == (401, "signature-invalid")
    assert watch.changes() == watch.raw() == []


def test_what_is_signed_but_not_supported_is_422_and_a_test_call_is_200(tenant: Tenant, watch: Watch) -> None:
    made = connector(tenant)
    for body, status in (
        (b'{"action": "billing"}', 422),
        (b"[]", 422),
        (b'{"action": "incident"}', 422),
        ((FIXTURES / "test__notification.json").read_bytes(), 200),
    ):
        raw = hmac.new(made["secret"].encode(), body, hashlib.sha512).hexdigest()
        answer = call(made, body, {"x-mcd-signature": raw})
        assert answer.status_code == status, answer.text
    assert answer.json() == {"event_type": "test", "accepted": 0}
    broken = b"{"
    raw = hmac.new(made["secret"].encode(), broken, hashlib.sha512).hexdigest()
    assert call(made, broken, {"x-mcd-signature": raw}).status_code == 400
    assert watch.changes() == []


def test_unknown_webhooks_are_404(stack: Stack) -> None:
    for name in ("con_nobody", "con_" + "0" * 24):
        assert httpx.post(f"{stack.url}/webhooks/{name}", content=b"{}").status_code == 404


def test_rotation_overlaps_and_ends(tenant: Tenant) -> None:
    made, body = connector(tenant), incident("opened__anomaly")
    path = f"/v1/connectors/{made['id']}/rotate-secret"
    renewed = tenant.client.post(path, json={"grace_seconds": 60}).json()
    assert renewed["secret"] != made["secret"]
    for secret in (made["secret"], renewed["secret"]):
        assert call(made, body, signed(secret, body)).status_code == 200
    last = tenant.client.post(path, json={"grace_seconds": 0, "secret": "given-by-the-vendor"}).json()
    assert last["secret"] == "given-by-the-vendor"
    for secret, status in ((made["secret"], 401), (renewed["secret"], 401), (last["secret"], 200)):
        assert call(made, body, signed(secret, body)).status_code == status


def test_a_paused_connector_is_409_and_a_deleted_one_404(tenant: Tenant) -> None:
    made, body = connector(tenant), incident("opened__anomaly")
    path = f"/v1/connectors/{made['id']}"
    assert tenant.client.patch(path, json={"status": "paused"}).json()["status"] == "paused"
    assert call(made, body, signed(made["secret"], body)).status_code == 409
    assert tenant.client.patch(path, json={"status": "active"}).json()["status"] == "active"
    assert call(made, body, signed(made["secret"], body)).status_code == 200
    assert tenant.client.delete(path).status_code == 204
    assert call(made, body, signed(made["secret"], body)).status_code == 404
    assert tenant.client.get(path).status_code == 404


def test_the_secret_is_shown_once_and_never_again(tenant: Tenant) -> None:
    made = connector(tenant)
    listed = tenant.client.get("/v1/connectors").text + tenant.client.get(f"/v1/connectors/{made['id']}").text
    assert made["id"] in listed
    assert made["secret"] not in listed
    assert made["secret"] not in tenant.client.get("/v1/audit").text


def test_another_tenant_sees_no_connector(tenant: Tenant, other: Tenant) -> None:
    made = connector(tenant)
    path = f"/v1/connectors/{made['id']}"
    assert other.client.get(path).status_code == 404
    assert other.client.patch(path, json={"status": "paused"}).status_code == 404
    assert other.client.post(f"{path}/rotate-secret", json={}).status_code == 404
    assert other.client.delete(path).status_code == 404
    assert made["id"] not in other.client.get("/v1/connectors").text
    assert tenant.client.get(path).json()["status"] == "active"


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"kind": "nobody", "name": "x"}, 422, "kind"),
        ({"kind": "slack", "name": "x"}, 422, "body.kind"),
        ({"kind": "montecarlo", "name": "x"}, 422, "body.config.namespace"),
        ({"kind": "montecarlo", "name": "x", "config": {"namespace": "a b"}}, 422, "body.config.namespace"),
        ({"kind": "montecarlo", "name": "x", "config": {"namespace": "b", "no": 1}}, 422, "body.config.no"),
        ({"kind": "montecarlo", "name": "a\x00b", "config": {"namespace": "b"}}, 422, "body.name"),
    ],
    ids=str,
)
def test_what_cannot_be_connected_is_said_by_field(
    tenant: Tenant, body: dict[str, Any], status: int, field: str
) -> None:
    answer = tenant.client.post("/v1/connectors", json=body)
    assert answer.status_code == status, answer.text
    assert field in [error["field"] for error in answer.json()["errors"]]


def test_names_are_unique_in_a_tenant(tenant: Tenant, other: Tenant) -> None:
    body = {"kind": "standard-webhooks", "name": "twice"}
    assert tenant.client.post("/v1/connectors", json=body).status_code == 201
    assert code(tenant.client.post("/v1/connectors", json=body)) == (409, "name-taken")
    assert other.client.post("/v1/connectors", json=body).status_code == 201


def test_the_catalogue_says_what_can_be_connected(tenant: Tenant) -> None:
    kinds = {item["kind"]: item for item in tenant.get("/v1/connector-kinds")["items"]}
    assert {"montecarlo", "standard-webhooks", "postgres-catalog"} <= set(kinds)
    assert "incident.opened" in kinds["montecarlo"]["event_types"]
    assert "namespace" in kinds["montecarlo"]["config_schema"]["required"]


def test_standard_webhooks_by_the_reference_package(tenant: Tenant, watch: Watch) -> None:
    made = connector(tenant, "standard-webhooks")
    data = {"qualified_name": TABLE, "tag": "PII"}
    body = json.dumps({"type": "lily.classification.attached", "data": data}).encode()

    def headers(age: timedelta = timedelta(0), secret: str = made["secret"]) -> dict[str, str]:
        moment = datetime.now(UTC) - age
        signature = Webhook(secret).sign("msg_1", moment, body.decode())
        stamp = str(int(moment.timestamp()))
        return {"webhook-id": "msg_1", "webhook-timestamp": stamp, "webhook-signature": signature}

    assert call(made, body, headers()).status_code == 200
    (change,) = watch.changes()
    assert (change["id"], change["subject"]) == ("msg_1", TABLE)
    assert code(call(made, body, headers(timedelta(minutes=6)))) == (401, "timestamp-stale")
    assert code(call(made, body, headers(timedelta(minutes=-6)))) == (401, "timestamp-stale")
    assert code(call(made, body, {})) == (401, "signature-missing")
    odd = headers() | {"webhook-signature": "v1,a,b"}
    assert code(call(made, body, odd)) == (401, "signature-invalid")
