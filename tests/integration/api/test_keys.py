"""API keys: shown once, rotated with overlap, expiring, revoked; never more than their creator may."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.api import Api, bearer

from lily_api.auth import authenticator


def _in(**delta: float) -> str:
    return (datetime.now(UTC) + timedelta(**delta)).isoformat()


async def test_a_key_is_shown_once_and_kept_as_a_hash(api: Api) -> None:
    tenant = await api.tenant()
    created = await api.key(tenant, "keys:read")
    assert created["key"].startswith(f"lily_{created['prefix']}_")
    assert len(created["key"]) == len("lily_") + 8 + 1 + 43
    shown = await api.client.get(f"/v1/keys/{created['id']}", headers=bearer(created["key"]))
    assert shown.status_code == 200
    assert "key" not in shown.json()
    async with api.app.state.lily.db() as session:
        connection = await session.connection()
        statement = "SELECT row_to_json(k)::text FROM api_keys k WHERE id = %s"
        dump = (await connection.exec_driver_sql(statement, (created["id"],))).scalar_one()
    assert created["key"] not in dump
    assert created["key"].split("_", 2)[2] not in dump


async def test_both_headers_authenticate(api: Api) -> None:
    key = (await api.key(await api.tenant(), "keys:read"))["key"]
    for headers in (bearer(key), {"X-API-Key": key}):
        assert (await api.client.get("/v1/keys", headers=headers)).status_code == 200


async def test_rotation_overlaps_for_the_grace_and_then_the_old_key_has_expired(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = await api.admin()
    old = (
        await api.client.post("/v1/keys", json={"name": "k", "scopes": ["keys:read"]}, headers=headers)
    ).json()
    answer = await api.client.post(
        f"/v1/keys/{old['id']}/rotate", json={"grace_seconds": 60}, headers=headers
    )
    assert answer.status_code == 201, answer.text
    new = answer.json()
    assert new["rotated_from"] == old["id"]
    assert (new["name"], new["scopes"]) == (old["name"], old["scopes"])
    for key in (old["key"], new["key"]):
        assert (await api.client.get("/v1/keys", headers=bearer(key))).status_code == 200

    later = authenticator.time.time() + 61
    monkeypatch.setattr(authenticator.time, "time", lambda: later)
    refused = await api.client.get("/v1/keys", headers=bearer(old["key"]))
    assert (refused.status_code, refused.json()["type"]) == (401, "urn:lily:problem:expired-credentials")
    assert (await api.client.get("/v1/keys", headers=bearer(new["key"]))).status_code == 200


async def test_rotation_without_grace_ends_the_old_key_at_once(api: Api) -> None:
    headers = await api.admin()
    old = (
        await api.client.post("/v1/keys", json={"name": "k", "scopes": ["keys:read"]}, headers=headers)
    ).json()
    assert (await api.client.get("/v1/keys", headers=bearer(old["key"]))).status_code == 200
    await api.client.post(f"/v1/keys/{old['id']}/rotate", json={}, headers=headers)
    assert (await api.client.get("/v1/keys", headers=bearer(old["key"]))).status_code == 401


async def test_rotation_never_lengthens_a_life(api: Api) -> None:
    headers = await api.admin()
    body = {"name": "k", "scopes": ["keys:read"], "expires_at": _in(seconds=30)}
    old = (await api.client.post("/v1/keys", json=body, headers=headers)).json()
    await api.client.post(f"/v1/keys/{old['id']}/rotate", json={"grace_seconds": 3600}, headers=headers)
    shown = (await api.client.get(f"/v1/keys/{old['id']}", headers=headers)).json()
    assert shown["expires_at"] == old["expires_at"]


async def test_an_expired_key_is_told_so(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = await api.tenant()
    key = (await api.key(tenant, "keys:read", expires_at=_in(seconds=30)))["key"]
    assert (await api.client.get("/v1/keys", headers=bearer(key))).status_code == 200
    later = authenticator.time.time() + 31
    monkeypatch.setattr(authenticator.time, "time", lambda: later)
    refused = await api.client.get("/v1/keys", headers=bearer(key))
    assert refused.status_code == 401
    assert "expired" in refused.json()["detail"]
    assert refused.headers["www-authenticate"].startswith("Bearer")


async def test_an_expiry_in_the_past_is_refused(api: Api) -> None:
    tenant = await api.tenant()
    body = {"name": "k", "scopes": ["keys:read"], "expires_at": _in(seconds=-1)}
    answer = await api.client.post("/v1/keys", json=body, headers=api.operator(tenant))
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "body.expires_at")


async def test_revocation_holds_at_once_and_twice_is_no_error(api: Api) -> None:
    headers = await api.admin()
    key = (
        await api.client.post("/v1/keys", json={"name": "k", "scopes": ["keys:read"]}, headers=headers)
    ).json()
    assert (await api.client.get("/v1/keys", headers=bearer(key["key"]))).status_code == 200
    for _ in range(2):
        assert (await api.client.delete(f"/v1/keys/{key['id']}", headers=headers)).status_code == 204
    refused = await api.client.get("/v1/keys", headers=bearer(key["key"]))
    assert (refused.status_code, refused.json()["type"]) == (401, "urn:lily:problem:revoked-credentials")
    again = await api.client.post(f"/v1/keys/{key['id']}/rotate", json={}, headers=headers)
    assert again.status_code == 409


async def test_a_revocation_elsewhere_is_felt_within_two_seconds(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = await api.tenant()
    key = await api.key(tenant, "keys:read")
    assert (await api.client.get("/v1/keys", headers=bearer(key["key"]))).status_code == 200
    async with api.app.state.lily.db.begin() as session:
        connection = await session.connection()
        await connection.exec_driver_sql("UPDATE api_keys SET revoked_at = now() WHERE id = %s", (key["id"],))
    assert authenticator.TTL_SECONDS <= 2
    later = authenticator.time.monotonic() + 2
    monkeypatch.setattr(authenticator.time, "monotonic", lambda: later)
    assert (await api.client.get("/v1/keys", headers=bearer(key["key"]))).status_code == 401


async def test_a_key_in_steady_use_is_looked_up_again_before_its_answer_is_old(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = await api.tenant()
    key = await api.key(tenant, "keys:read")
    known = api.app.state.lily.authenticator
    assert (await api.client.get("/v1/keys", headers=bearer(key["key"]))).status_code == 200
    began = authenticator.time.monotonic()
    monkeypatch.setattr(authenticator.time, "monotonic", lambda: began + 0.9 * authenticator.TTL_SECONDS)
    assert known.remembered(key["key"]) is not None
    # Past the first answer's time, it is remembered still: the look-up that nobody waited for.
    await asyncio.gather(*known._pending.values())
    monkeypatch.setattr(authenticator.time, "monotonic", lambda: began + 1.2 * authenticator.TTL_SECONDS)
    assert known.remembered(key["key"]) is not None
    async with api.app.state.lily.db.begin() as session:
        connection = await session.connection()
        await connection.exec_driver_sql("UPDATE api_keys SET revoked_at = now() WHERE id = %s", (key["id"],))
    monkeypatch.setattr(authenticator.time, "monotonic", lambda: began + 1.7 * authenticator.TTL_SECONDS)
    known.remembered(key["key"])
    await asyncio.gather(*known._pending.values())
    assert known.remembered(key["key"]) is None


async def test_nobody_grants_what_they_do_not_have(api: Api) -> None:
    tenant = await api.tenant()
    small = bearer((await api.key(tenant, "keys:write", "keys:read", "assets:read"))["key"])
    for scopes, status in ((["assets:read"], 201), (["assets:read", "events:write"], 403), (["admin"], 403)):
        answer = await api.client.post("/v1/keys", json={"name": "k", "scopes": scopes}, headers=small)
        assert answer.status_code == status, answer.text
    big = await api.key(tenant, "admin")
    answer = await api.client.post(f"/v1/keys/{big['id']}/rotate", json={}, headers=small)
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:lily:problem:scope-escalation")
    reserved = {"name": "k", "scopes": ["tenants:write"]}
    answer = await api.client.post("/v1/keys", json=reserved, headers=api.operator(tenant))
    assert answer.status_code == 422


async def test_scopes_are_enforced(api: Api) -> None:
    tenant = await api.tenant()
    reader = bearer((await api.key(tenant, "assets:read"))["key"])
    refused = await api.client.get("/v1/keys", headers=reader)
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:lily:problem:missing-scope")


async def test_lists_are_paged_newest_first(api: Api) -> None:
    tenant = await api.tenant()
    made = [(await api.key(tenant, "keys:read"))["id"] for _ in range(5)]
    seen: list[str] = []
    cursor = None
    while True:
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await api.client.get("/v1/keys", params=params, headers=api.operator(tenant))).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == made[::-1]


async def test_the_time_of_last_use_is_written_in_the_end(api: Api) -> None:
    tenant = await api.tenant()
    key = await api.key(tenant, "keys:read")
    await api.client.get("/v1/keys", headers=bearer(key["key"]))
    await api.app.state.lily.authenticator._flush()
    shown = (await api.client.get(f"/v1/keys/{key['id']}", headers=api.operator(tenant))).json()
    assert shown["last_used_at"] is not None


async def test_requests_that_wait_for_one_answer_share_it(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    key = (await api.key(await api.tenant(), "keys:read"))["key"]
    asked = 0
    real = authenticator.repository.find_key

    async def counting(session, prefix):
        nonlocal asked
        asked += 1
        return await real(session, prefix)

    monkeypatch.setattr(authenticator.repository, "find_key", counting)
    headers = {"authorization": f"Bearer {key}"}
    check = api.app.state.lily.authenticator.authenticate
    principals = await asyncio.gather(*(check(headers) for _ in range(50)))
    assert asked == 1
    assert len(set(principals)) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic Zm9vOmJhcg=="},
        {"Authorization": "Bearer lily_"},
        {"Authorization": "Bearer lily_abcdefgh_"},
        {"Authorization": "Bearer lily_abcdefgh_nonsense"},
        {"Authorization": "Bearer ....."},
        {"Authorization": "Bearer a.b.c"},
        {"X-API-Key": "x" * 20_000},
    ],
)
async def test_what_is_no_credential_is_answered_401(api: Api, headers: dict[str, str]) -> None:
    answer = await api.client.get("/v1/keys", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
