"""Tenants: the operator's to make, an administrator's to read and change, their policy published before the answer."""

from __future__ import annotations

import orjson
import pytest
from tests.support.api import Api

from lily_api.tenants import hooks


def _policies(api: Api, tenant: str) -> list[dict]:
    records = [record for record in api.producer.records if record.key == tenant.encode()]
    assert all(record.topic == "lily.tenants" for record in records)
    return [orjson.loads(record.value) for record in records]


async def test_creation_publishes_the_default_policy(api: Api) -> None:
    tenant = await api.tenant()
    assert _policies(api, tenant) == [{"tenant": tenant, "sensitive_fields": ["sample_values", "sql"]}]


async def test_a_policy_that_kafka_does_not_take_changes_nothing(api: Api) -> None:
    tenant = await api.tenant()
    api.producer.broken = True
    answer = await api.client.post("/v1/tenants", json={"id": "never-made"}, headers=api.operator())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    body = {"sensitive_fields": ["x"]}
    assert (
        await api.client.patch(f"/v1/tenants/{tenant}", json=body, headers=api.operator())
    ).status_code == 503
    api.producer.broken = False
    assert (await api.client.get("/v1/tenants/never-made", headers=api.operator())).status_code == 404
    shown = (await api.client.get(f"/v1/tenants/{tenant}", headers=api.operator())).json()
    assert shown["sensitive_fields"] == ["sample_values", "sql"]


async def test_an_administrator_reads_and_changes_its_own(api: Api) -> None:
    tenant = await api.tenant()
    admin = await api.admin(tenant)
    body = {"name": "Łódź 🌸", "sensitive_fields": ["sql", "owners", "sql"]}
    answer = await api.client.patch(f"/v1/tenants/{tenant}", json=body, headers=admin)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["name"], answer.json()["sensitive_fields"]) == ("Łódź 🌸", ["owners", "sql"])
    assert _policies(api, tenant)[-1]["sensitive_fields"] == ["owners", "sql"]
    other = await api.tenant()
    assert (await api.client.get(f"/v1/tenants/{other}", headers=admin)).status_code == 404
    assert (await api.client.patch(f"/v1/tenants/{other}", json=body, headers=admin)).status_code == 404
    assert (await api.client.get("/v1/tenants", headers=admin)).status_code == 403
    assert (await api.client.post("/v1/tenants", json={"id": "abc"}, headers=admin)).status_code == 403


async def test_ids_are_slugs_and_unique(api: Api) -> None:
    tenant = await api.tenant()
    again = await api.client.post("/v1/tenants", json={"id": tenant}, headers=api.operator())
    assert (again.status_code, again.json()["type"]) == (409, "urn:lily:problem:tenant-exists")
    for wrong in ("A", "a", "1abc", "a_b", "a-", "a" * 41, "", "ab\n", "a|b", "ab\x00"):
        answer = await api.client.post("/v1/tenants", json={"id": wrong}, headers=api.operator())
        assert answer.status_code == 422, wrong


async def test_lists_are_paged_by_id(api: Api) -> None:
    made = {await api.tenant() for _ in range(3)}
    seen: list[str] = []
    cursor = None
    while True:
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await api.client.get("/v1/tenants", params=params, headers=api.operator())).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert made <= set(seen)
    assert len(set(seen)) == len(seen)
    assert seen == sorted(seen)


async def test_the_operator_has_to_name_an_existing_tenant(api: Api) -> None:
    tenant = await api.tenant()
    assert (await api.client.get("/v1/keys", headers=api.operator(tenant))).status_code == 200
    missing = await api.client.get("/v1/keys", headers=api.operator())
    assert (missing.status_code, missing.json()["type"]) == (422, "urn:lily:problem:tenant-missing")
    unknown = await api.client.get("/v1/keys", headers=api.operator("no-such"))
    assert (unknown.status_code, unknown.json()["type"]) == (404, "urn:lily:problem:unknown-tenant")
    nul = await api.client.get("/v1/keys", headers=api.operator() | {"X-Lily-Tenant": b"a\xffb"})
    assert nul.status_code == 404


async def test_a_key_cannot_act_for_another_tenant(api: Api) -> None:
    admin, other = await api.admin(), await api.tenant()
    answer = await api.client.get("/v1/keys", headers=admin | {"X-Lily-Tenant": other})
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:lily:problem:wrong-tenant")


async def test_what_others_do_at_creation_is_part_of_it(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    async def fine(session, tenant: str) -> None:
        called.append(tenant)

    async def broken(session, tenant: str) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(hooks, "ON_CREATED", [fine])
    tenant = await api.tenant()
    assert called == [tenant]
    monkeypatch.setattr(hooks, "ON_CREATED", [broken])
    answer = await api.client.post("/v1/tenants", json={"id": "half-made"}, headers=api.operator())
    assert answer.status_code == 500
    assert "no" not in answer.json()["detail"].split()
    assert (await api.client.get("/v1/tenants/half-made", headers=api.operator())).status_code == 404
