"""`/v1/subscriptions` and `/v1/deliveries` over a real PostgreSQL."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from tests.support.api import Api, bearer

WEBHOOK = {"kind": "webhook", "url": "https://hooks.example.com/lily"}


def wanted(**fields: Any) -> dict[str, Any]:
    return {"name": "mask PII", "sink": WEBHOOK, **fields}


async def created(api: Api, headers: dict[str, str], **fields: Any) -> dict[str, Any]:
    answer = await api.client.post("/v1/subscriptions", json=wanted(**fields), headers=headers)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def test_the_signing_secret_is_shown_once(api: Api) -> None:
    headers = await api.admin()
    answer = await api.client.post("/v1/subscriptions", json=wanted(), headers=headers)
    made = answer.json()
    assert made["secret"].startswith("whsec_")
    assert answer.headers["cache-control"] == "no-store"
    shown = (await api.client.get(f"/v1/subscriptions/{made['id']}", headers=headers)).json()
    assert "secret" not in shown
    assert shown["sink"] == {**WEBHOOK, "headers": {}}
    assert shown["status"] == "active"
    assert len(shown["retry"]["pauses"]) == 7


async def test_secrets_in_the_configuration_are_masked(api: Api) -> None:
    headers = await api.admin()
    sink = {**WEBHOOK, "headers": {"Authorization": "Bearer hidden"}}
    made = await created(api, headers, sink=sink)
    slack = await created(
        api, headers, sink={"kind": "slack", "url": "https://hooks.slack.com/services/T/B/hidden"}
    )
    listed = await api.client.get("/v1/subscriptions", headers=headers)
    audit = await api.client.get("/v1/audit", headers=headers)
    assert made["sink"]["headers"] == {"Authorization": "**********"}
    assert slack["secret"] is None
    assert "hidden" not in listed.text + audit.text + str(slack)


async def test_every_tenant_has_its_managed_subscription(api: Api) -> None:
    headers = await api.admin()
    (managed,) = (await api.client.get("/v1/subscriptions", headers=headers)).json()["items"]
    assert (managed["kind"], managed["managed"], managed["status"]) == ("kafka", True, "active")
    path = f"/v1/subscriptions/{managed['id']}"
    assert (await api.client.delete(path, headers=headers)).status_code == 409
    assert (await api.client.patch(path, json={"name": "x"}, headers=headers)).status_code == 409
    assert (await api.client.post(f"{path}/rotate-secret", json={}, headers=headers)).status_code == 409
    assert (await api.client.post(f"{path}/pause", headers=headers)).json()["status"] == "paused"
    assert (await api.client.post(f"{path}/resume", headers=headers)).json()["status"] == "active"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"types": ["lily.asset.upserted"]}, "body.types[0]"),
        ({"types": ["nonsense"]}, "body.types[0]"),
        ({"filters": [{"sql": "type = 'x'"}]}, "body.filters[0].sql"),
        ({"filters": [{"exact": {"type": "lily.lineage.edge.added"}}]}, "body.filters[0].exact.type[0]"),
        ({"filters": [{"exact": {"data.tag": 5}}]}, "body.filters[0].exact.data.tag"),
        ({"sink": {"url": "https://example.com"}}, "body.sink.kind"),
        ({"sink": {"kind": "pager"}}, "body.sink.kind"),
        ({"sink": {"kind": "kafka"}}, "body.sink.kind"),
        ({"sink": {"kind": "webhook"}}, "body.sink.url"),
        ({"sink": {**WEBHOOK, "unknown": 1}}, "body.sink.unknown"),
        ({"sink": {"kind": "webhook", "url": "http://example.com/x"}}, "body.sink.url"),
        ({"sink": {"kind": "webhook", "url": "https://169.254.169.254/latest"}}, "body.sink.url"),
        ({"sink": {"kind": "webhook", "url": "https://127.0.0.1/x"}}, "body.sink.url"),
        ({"sink": {"kind": "webhook", "url": "https://[::ffff:10.0.0.1]/x"}}, "body.sink.url"),
        ({"sink": {"kind": "slack", "url": "https://2130706433/x"}}, "body.sink.url"),
        ({"sink": {"kind": "webhook", "url": "https://e.com/\x00"}}, "body.sink.url"),
        ({"sink": {**WEBHOOK, "headers": {"Host": "x"}}}, "body.sink.headers"),
        ({"retry": {"pauses": [-1]}}, "body.retry.pauses.0"),
        ({"timeout_seconds": 0}, "body.timeout_seconds"),
        ({"name": ""}, "body.name"),
        ({"extra": 1}, "body.extra"),
    ],
)
async def test_wrong_fields_are_named(api: Api, fields: dict[str, Any], field: str) -> None:
    headers = await api.admin()
    answer = await api.client.post("/v1/subscriptions", json=wanted(**fields), headers=headers)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"].startswith("application/problem+json")
    assert field in [error["field"] for error in answer.json()["errors"]], answer.text


@pytest.mark.parametrize("text", ["a\x00b", "\ud800"])
async def test_texts_that_cannot_be_stored_are_refused(api: Api, text: str) -> None:
    import json

    headers = {**await api.admin(), "Content-Type": "application/json"}
    for fields in (
        {"filters": [{"exact": {"data.tag": text}}]},
        {"filters": [{"exact": {f"data.{text}": "x"}}]},
        {"name": text},
    ):
        body = json.dumps(wanted(**fields)).encode()
        answer = await api.client.post("/v1/subscriptions", content=body, headers=headers)
        assert answer.status_code in (400, 422), answer.text


async def test_patch_overlays(api: Api) -> None:
    headers = await api.admin()
    made = await created(api, headers, types=["lily.asset.deleted"])
    path = f"/v1/subscriptions/{made['id']}"
    filters = [{"exact": {"data.tag": "PII"}}]
    changed = (await api.client.patch(path, json={"filters": filters, "types": None}, headers=headers)).json()
    assert (changed["filters"], changed["types"], changed["name"]) == (
        filters,
        ["lily.asset.deleted"],
        "mask PII",
    )
    sink = {"kind": "webhook", "url": "https://other.example/x"}
    changed = (await api.client.patch(path, json={"sink": sink}, headers=headers)).json()
    assert changed["sink"]["url"] == "https://other.example/x"
    for wrong in (
        {"sink": {"kind": "slack", "url": "https://a.example/x"}},
        {"filters": [{"x": 1}]},
        {"sink": {"kind": "webhook", "url": "https://10.0.0.1/"}},
    ):
        answer = await api.client.patch(path, json=wrong, headers=headers)
        assert answer.status_code == 422, answer.text


async def test_rotation_pause_and_test_need_the_right_state(api: Api) -> None:
    headers = await api.admin()
    made = await created(api, headers)
    path = f"/v1/subscriptions/{made['id']}"
    rotated = await api.client.post(f"{path}/rotate-secret", json={"grace_seconds": 60}, headers=headers)
    assert rotated.status_code == 201
    assert rotated.json()["secret"] != made["secret"]
    assert rotated.json()["previous_until"] is not None
    sent = await api.client.post(f"{path}/test", headers=headers)
    assert sent.status_code == 202
    delivery = (await api.client.get(f"/v1/deliveries/{sent.json()['delivery_id']}", headers=headers)).json()
    assert (delivery["status"], delivery["attempts"], delivery["event"]["type"]) == (
        "pending",
        0,
        "lily.subscription.test",
    )
    await api.client.post(f"{path}/pause", headers=headers)
    assert (await api.client.post(f"{path}/test", headers=headers)).status_code == 409
    assert (await api.client.post(f"{path}/replay-dead", headers=headers)).json() == {"replayed": 0}
    assert (await api.client.delete(path, headers=headers)).status_code == 204
    for call in ("pause", "resume", "test", "replay-dead"):
        assert (await api.client.post(f"{path}/{call}", headers=headers)).status_code == 404
    retried = await api.client.post(f"/v1/deliveries/{delivery['id']}/retry", headers=headers)
    assert retried.status_code == 409, "its subscription is deleted"


async def test_slack_is_not_signed(api: Api) -> None:
    headers = await api.admin()
    made = await created(
        api, headers, sink={"kind": "slack", "url": "https://hooks.slack.com/services/T/B/X"}
    )
    answer = await api.client.post(f"/v1/subscriptions/{made['id']}/rotate-secret", json={}, headers=headers)
    assert answer.status_code == 409


async def test_pages(api: Api) -> None:
    headers = await api.admin()
    for number in range(5):
        await created(api, headers, name=f"s{number}")
    names: list[str] = []
    cursor: str | None = None
    while True:
        query = {"limit": "2", **({"cursor": cursor} if cursor else {})}
        page = (await api.client.get("/v1/subscriptions", params=query, headers=headers)).json()
        names += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert names == ["s4", "s3", "s2", "s1", "s0", "events topic"]


async def test_scopes(api: Api) -> None:
    tenant = await api.tenant()
    read = bearer((await api.key(tenant, "subscriptions:read"))["key"])
    assert (await api.client.get("/v1/subscriptions", headers=read)).status_code == 200
    assert (await api.client.post("/v1/subscriptions", json=wanted(), headers=read)).status_code == 403
    assert (await api.client.get("/v1/deliveries", headers=read)).status_code == 403


async def test_another_tenants_are_not_there(api: Api) -> None:
    owner, stranger = await api.admin(), await api.admin()
    made = await created(api, owner)
    path = f"/v1/subscriptions/{made['id']}"
    sent = (await api.client.post(f"{path}/test", headers=owner)).json()["delivery_id"]
    calls = [
        ("GET", path, None),
        ("PATCH", path, {"name": "x"}),
        ("DELETE", path, None),
        ("POST", f"{path}/pause", None),
        ("POST", f"{path}/resume", None),
        ("POST", f"{path}/rotate-secret", {}),
        ("POST", f"{path}/test", None),
        ("POST", f"{path}/replay-dead", None),
        ("GET", f"/v1/deliveries/{sent}", None),
        ("POST", f"/v1/deliveries/{sent}/retry", None),
    ]
    for method, url, body in calls:
        answer = await api.client.request(method, url, json=body, headers=stranger)
        assert answer.status_code == 404, (method, url, answer.text)
    listed = (
        await api.client.get("/v1/deliveries", params={"subscription": made["id"]}, headers=stranger)
    ).json()
    assert listed["items"] == []
    assert len((await api.client.get("/v1/deliveries", headers=owner)).json()["items"]) == 1


async def test_deliveries_answers_for_odd_input(api: Api) -> None:
    headers = await api.admin()
    assert (await api.client.get(f"/v1/deliveries/{uuid4()}", headers=headers)).status_code == 404
    assert (await api.client.get("/v1/deliveries/nonsense", headers=headers)).status_code == 422
    assert (await api.client.get("/v1/deliveries?status=odd", headers=headers)).status_code == 422
    assert (await api.client.get("/v1/deliveries?cursor=odd", headers=headers)).status_code == 422
    assert (await api.client.get("/v1/deliveries?asset=a%00b", headers=headers)).status_code == 422
    assert (await api.client.get("/v1/deliveries?asset=x&event_id=y", headers=headers)).json()["items"] == []
