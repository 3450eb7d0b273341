"""The audit log: a row per write in its transaction, chained, unchangeable, the tenant's own."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from tests.support.api import Api, bearer

from lily_api import audit
from lily_api.auth.principal import Principal


async def _rows(api: Api, tenant: str, **params) -> list[dict]:
    answer = await api.client.get("/v1/audit", params=params, headers=api.operator(tenant))
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def test_every_write_leaves_one_row(api: Api) -> None:
    tenant = await api.tenant()
    admin = await api.admin(tenant)
    headers = admin | {"X-Request-Id": "req-1"}
    key = (
        await api.client.post("/v1/keys", json={"name": "k", "scopes": ["keys:read"]}, headers=headers)
    ).json()
    new = (await api.client.post(f"/v1/keys/{key['id']}/rotate", json={}, headers=admin)).json()
    await api.client.delete(f"/v1/keys/{new['id']}", headers=admin)
    await api.client.patch(f"/v1/tenants/{tenant}", json={"name": "N"}, headers=admin)
    body = {"name": "c", "scopes": ["keys:read"]}
    client = (await api.client.post("/v1/clients", json=body, headers=admin)).json()
    await api.client.patch(f"/v1/clients/{client['id']}", json={"name": "d"}, headers=admin)
    await api.client.post(f"/v1/clients/{client['id']}/rotate", json={}, headers=admin)
    await api.client.delete(f"/v1/clients/{client['id']}", headers=admin)
    rows = await _rows(api, tenant)
    actions = [row["action"] for row in rows][::-1]
    assert actions == [
        "tenant.create",
        "key.create",
        "key.create",
        "key.rotate",
        "key.revoke",
        "tenant.patch",
        "client.create",
        "client.patch",
        "client.rotate",
        "client.revoke",
    ]
    assert [row["seq"] for row in rows][::-1] == list(range(1, 11))
    own = rows[-3]
    assert (own["target"], own["request_id"], own["outcome"]) == (f"key:{key['id']}", "req-1", "ok")
    assert own["actor"].startswith("key:")
    assert rows[-1]["actor"] == "operator"
    text = str(rows)
    assert key["key"] not in text
    assert client["client_secret"] not in text
    check = (await api.client.get("/v1/audit/verify", headers=admin)).json()
    assert check == {"valid": True, "entries": 10, "head_hash": rows[0]["hash"], "broken_at": None}


async def test_refused_writes_leave_none(api: Api) -> None:
    tenant = await api.tenant()
    small = bearer((await api.key(tenant, "keys:write"))["key"])
    await api.client.post("/v1/keys", json={"name": "k", "scopes": ["admin"]}, headers=small)
    assert len(await _rows(api, tenant)) == 2


async def test_pages_and_filters(api: Api) -> None:
    tenant = await api.tenant()
    for _ in range(4):
        await api.key(tenant, "keys:read")
    first = await api.client.get("/v1/audit", params={"limit": 3}, headers=api.operator(tenant))
    cursor = first.json()["next_cursor"]
    second = await _rows(api, tenant, limit=3, cursor=cursor)
    assert [row["seq"] for row in first.json()["items"]] + [row["seq"] for row in second] == [5, 4, 3, 2, 1]
    assert len(await _rows(api, tenant, action="key.create")) == 4
    assert len(await _rows(api, tenant, actor="operator", target=f"tenant:{tenant}")) == 1


async def test_the_database_refuses_to_change_it(api: Api, api_database: str) -> None:
    await api.tenant()
    for statement in ("UPDATE audit_log SET actor = 'x'", "DELETE FROM audit_log", "TRUNCATE audit_log"):
        with (
            psycopg.connect(api_database) as connection,
            pytest.raises(psycopg.errors.RestrictViolation, match="append-only"),
        ):
            connection.execute(statement)


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE audit_log SET actor = 'x' WHERE tenant = %(t)s AND seq = 2",
        """UPDATE audit_log SET detail = '{"name": "other"}' WHERE tenant = %(t)s AND seq = 2""",
        "DELETE FROM audit_log WHERE tenant = %(t)s AND seq = 2",
    ],
)
async def test_verification_finds_the_tampered_row(api: Api, api_database: str, tampering: str) -> None:
    tenant = await api.tenant()
    for _ in range(3):
        await api.key(tenant, "keys:read")
    with psycopg.connect(api_database) as connection:  # as a superuser could
        connection.execute("SET session_replication_role = replica")
        assert connection.execute(tampering, {"t": tenant}).rowcount == 1
    check = (await api.client.get("/v1/audit/verify", headers=api.operator(tenant))).json()
    assert (check["valid"], check["broken_at"]) == (False, 2)


async def test_concurrent_writers_make_one_chain(api: Api) -> None:
    tenant = await api.tenant()
    await asyncio.gather(*(api.key(tenant, "keys:read") for _ in range(30)))
    check = (await api.client.get("/v1/audit/verify", headers=api.operator(tenant))).json()
    assert (check["valid"], check["entries"]) == (True, 31)


async def test_any_detail_survives_the_round_trip(api: Api) -> None:
    """Floats, big numbers, NUL, emoji: what is hashed is what comes back."""
    tenant = await api.tenant()
    principal = Principal(tenant, "operator", frozenset(), is_operator=True)
    detail = {
        "f": 1e300,
        "g": 0.1,
        "i": 2**70,
        "t": "🌸\x00\u2028",
        "n": None,
        "l": [1, {"a": True}],
        "z": -0.0,
    }
    async with api.app.state.lily.db.begin() as session:
        await audit.record(session, principal, "x.y", "x:1", detail)
    assert (await _rows(api, tenant))[0]["detail"] == detail
    assert (await api.client.get("/v1/audit/verify", headers=api.operator(tenant))).json()["valid"]


async def test_a_tenant_sees_only_its_own(api: Api) -> None:
    one, other = await api.tenant(), await api.tenant()
    admin = await api.admin(one)
    rows = (await api.client.get("/v1/audit", headers=admin)).json()["items"]
    assert all(other not in str(row) for row in rows)
    assert len(rows) == 2
