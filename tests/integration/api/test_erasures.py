"""Erasures through the control plane: asked for, whose they are, what is refused from then on, what is kept."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from jose import jwt
from tests.support.api import Api, bearer

from lily_api.erasures import service
from lily_common.events import ERASURES_TOPIC

ASSET = "postgres://shop/shop/public/customers"


def _event(number: int, qualified_name: str, **data: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": f"e{number}",
        "source": "test",
        "type": "lily.asset.upserted",
        "data": {"qualified_name": qualified_name, "asset_type": "table", **data},
    }


async def _erase(api: Api, headers: dict[str, str], **body: Any) -> dict[str, Any]:
    answer = await api.client.post("/v1/erasures", json=body, headers=headers)
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


async def test_what_is_erased_is_stopped_at_the_door_item_by_item(api: Api) -> None:
    tenant = await api.tenant()
    headers = await api.admin(tenant)
    await _erase(api, headers, asset=ASSET, descendants=True)
    events = [
        _event(1, "postgres://shop/shop/public/orders"),
        _event(2, ASSET),
        _event(3, f"{ASSET}/email"),
        _event(4, "postgres://shop/shop/public/view", parent=ASSET),
    ]
    answer = await api.client.post(
        "/v1/events",
        content=orjson.dumps(events),
        headers=headers | {"content-type": "application/cloudevents-batch+json"},
    )
    assert answer.status_code == 207, answer.text
    items = answer.json()["items"]
    assert [item["status"] for item in items] == ["accepted", "rejected", "rejected", "rejected"]
    assert {item["problem"]["type"] for item in items[1:]} == {"urn:lily:problem:erased"}
    raw = [record for record in api.producer.records if record.topic == "lily.raw"]
    assert raw[-1].value == b""
    other = await api.admin()
    alone = await api.client.post("/v1/events", json=_event(5, ASSET), headers=other)
    assert alone.status_code == 202, alone.text


async def test_a_person_is_stopped_wherever_the_identifier_stands(api: Api) -> None:
    headers = await api.admin()
    await _erase(api, headers, person="Jane.Doe@Example.com")
    for refused in (["jane.doe@example.com"], ["mail JANE.DOE@example.com, please"]):
        answer = await api.client.post(
            "/v1/events", json=_event(1, "x://a/b", owners=refused), headers=headers
        )
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:lily:problem:erased")
    fine = _event(2, "x://a/b", owners=["mary-jane.doe@example.com", "jane.doe@example.com.au"])
    answer = await api.client.post("/v1/events", json=fine, headers=headers)
    assert answer.status_code == 202, answer.text


async def test_the_text_is_kept_nowhere_but_sealed_and_that_only_until_it_is_applied(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = await api.tenant()
    headers = await api.admin(tenant)
    made = await _erase(api, headers, person="secret.person@example.com")
    log = (await api.client.get("/v1/audit", headers=headers)).text
    messages = [record for record in api.producer.records if record.topic == ERASURES_TOPIC]
    assert made["digest"] in log
    assert all(b"secret.person" not in (record.value or b"") for record in messages)
    for shown in (log, str(made), (await api.client.get("/v1/erasures", headers=headers)).text):
        assert "secret.person" not in shown

    async def marks(*_: object) -> tuple[dict[str, Any], None]:
        return {}, None

    services = api.app.state.lily
    monkeypatch.setattr(service.retention, "marks", marks)
    report = f"/v1/erasures/{made['id']}/report"
    assert (await api.client.get(report, headers=headers)).status_code == 409
    detail = {"part": "bronze/events@3", "store": "lake bronze/events", "rows": 2, "files": 1}
    for _ in range(2):  # told twice, counted once
        await service.take(services, tenant, made["id"], "running", detail)
    await service.take(services, tenant, made["id"], "succeeded", {"seconds": 1.0})
    await service.advance(services, tenant, made["id"])
    view = (await api.client.get(f"/v1/erasures/{made['id']}", headers=headers)).json()
    assert view["status"] == "applied", view
    assert view["removed"]["lake bronze/events"] == {"rows": 2, "files": 1}
    async with services.db() as session:
        row = await service.repository.get(session, tenant, made["id"])
        assert row is not None
        assert row.sealed is None
    found = (await api.client.get(report, headers=headers)).json()
    assert found["claims"]["erasure"]["digest"] == made["digest"]
    await _check_signature(api, found["jws"], made["digest"])
    last = orjson.loads([r for r in api.producer.records if r.topic == ERASURES_TOPIC][-1].value or b"")
    assert last["open"] is False


async def _check_signature(api: Api, jws: str, digest: str) -> None:
    keys = (await api.client.get("/.well-known/jwks.json")).json()
    claims = jwt.decode(jws, keys, algorithms=["RS256"])
    assert claims["erasure"]["digest"] == digest
    refused = await api.client.get("/v1/erasures", headers=bearer(jws))
    assert refused.status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"asset": ASSET, "person": "someone@example.com"},
        {"person": "ab"},
        {"person": "someone@example.com", "descendants": True},
        {"asset": "a|b"},
        {"tenant": "acme-inc"},
        {"tenant": "acme-inc", "confirm": "acme"},
    ],
)
async def test_what_is_no_request_is_refused(api: Api, body: dict[str, Any]) -> None:
    answer = await api.client.post("/v1/erasures", json=body, headers=await api.admin())
    assert answer.status_code == 422, answer.text


async def test_a_tenant_is_erased_by_its_own_administrator_or_the_operator_alone(api: Api) -> None:
    tenant, stranger = await api.tenant(), await api.tenant()
    body = {"tenant": tenant, "confirm": tenant}
    weak = bearer((await api.key(tenant, "erasures:write"))["key"])
    for headers in (weak, await api.admin(stranger), api.operator(stranger)):
        assert (await api.client.post("/v1/erasures", json=body, headers=headers)).status_code == 403
    admin = await api.admin(tenant)
    await _erase(api, api.operator(tenant), **body)
    answer = await api.client.post("/v1/events", json=_event(1, "x://a/b"), headers=admin)
    assert answer.json()["type"] == "urn:lily:problem:erased"
    again = await api.client.post("/v1/erasures", json=body, headers=admin)
    assert (again.status_code, again.json()["type"]) == (409, "urn:lily:problem:under-way")
