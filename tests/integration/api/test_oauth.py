"""OAuth 2 client credentials, as librdkafka asks for them, and what must never pass for a token."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import pytest
from jose import jwk, jwt
from tests.support.api import Api, bearer

from lily_api.auth import tokens

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def basic(client: dict[str, Any]) -> dict[str, str]:
    pair = f"{client['id']}:{client['client_secret']}".encode()
    return {"Authorization": "Basic " + base64.b64encode(pair).decode()}


async def new_client(api: Api, *scopes: str, tenant: str | None = None) -> dict[str, Any]:
    headers = api.operator(tenant or await api.tenant())
    answer = await api.client.post("/v1/clients", json={"name": "c", "scopes": list(scopes)}, headers=headers)
    assert answer.status_code == 201, answer.text
    return {**answer.json(), "headers": headers}


async def token_of(api: Api, client: dict[str, Any], scope: str = "") -> str:
    data = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    answer = await api.client.post("/oauth2/token", data=data, headers=basic(client))
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


async def test_the_request_of_librdkafka(api: Api) -> None:
    """`sasl.oauthbearer.method=oidc`: Basic credentials, Accept header, `grant_type` and `scope` in a raw form body."""
    client = await new_client(api, "assets:read", "stream:read")
    headers = basic(client) | FORM | {"Accept": "application/json"}
    body = b"grant_type=client_credentials&scope=stream%3Aread"
    answer = await api.client.post("/oauth2/token", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    granted = answer.json()
    assert (granted["token_type"], granted["scope"]) == ("Bearer", "stream:read")
    claims = jwt.get_unverified_claims(granted["access_token"])
    assert claims["sub"] == client["id"]
    assert time.time() < claims["exp"] <= time.time() + 900
    assert granted["expires_in"] == claims["exp"] - claims["iat"]


async def test_a_stranger_verifies_the_token_with_the_published_keys_alone(api: Api) -> None:
    client = await new_client(api, "assets:read")
    token = await token_of(api, client)
    discovered = (await api.client.get("/.well-known/openid-configuration")).json()
    assert (await api.client.get("/.well-known/oauth-authorization-server")).json() == discovered
    keys = (await api.client.get(discovered["jwks_uri"])).json()["keys"]
    header = jwt.get_unverified_header(token)
    (key,) = [key for key in keys if key["kid"] == header["kid"]]
    assert set(key) == {"kty", "use", "alg", "kid", "n", "e"}
    claims = jwt.decode(token, key, algorithms=["RS256"], audience="lily", issuer=discovered["issuer"])
    assert claims["scope"] == "assets:read"
    assert claims["tenant"].startswith("t-")
    assert {"iss", "aud", "sub", "iat", "exp", "jti", "scope", "tenant"} == set(claims)


async def test_the_token_opens_what_its_scopes_say(api: Api) -> None:
    client = await new_client(api, "keys:read", "audit:read")
    assert (await api.client.get("/v1/audit", headers=bearer(await token_of(api, client)))).status_code == 200
    narrow = bearer(await token_of(api, client, "keys:read"))
    assert (await api.client.get("/v1/keys", headers=narrow)).status_code == 200
    assert (await api.client.get("/v1/audit", headers=narrow)).status_code == 403


async def test_a_revoked_client_takes_its_tokens_along(api: Api) -> None:
    client = await new_client(api, "keys:read")
    headers = bearer(await token_of(api, client))
    assert (await api.client.get("/v1/keys", headers=headers)).status_code == 200
    revoked = await api.client.delete(f"/v1/clients/{client['id']}", headers=client["headers"])
    assert revoked.status_code == 204
    assert (await api.client.get("/v1/keys", headers=headers)).status_code == 401
    answer = await api.client.post(
        "/oauth2/token", data={"grant_type": "client_credentials"}, headers=basic(client)
    )
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


async def test_a_scope_taken_away_is_gone_from_issued_tokens(api: Api) -> None:
    client = await new_client(api, "keys:read", "audit:read")
    headers = bearer(await token_of(api, client))
    body = {"scopes": ["audit:read"]}
    await api.client.patch(f"/v1/clients/{client['id']}", json=body, headers=client["headers"])
    assert (await api.client.get("/v1/keys", headers=headers)).status_code == 403
    assert (await api.client.get("/v1/audit", headers=headers)).status_code == 200


async def test_secrets_rotate_with_overlap(api: Api) -> None:
    client = await new_client(api, "keys:read")
    path = f"/v1/clients/{client['id']}/rotate"
    rotated = (await api.client.post(path, json={"grace_seconds": 60}, headers=client["headers"])).json()
    assert rotated["client_secret"] != client["client_secret"]
    assert await token_of(api, client)
    assert await token_of(api, client | rotated)
    await api.client.post(path, json={}, headers=client["headers"])
    for old in (client, client | rotated):
        answer = await api.client.post(
            "/oauth2/token", data={"grant_type": "client_credentials"}, headers=basic(old)
        )
        assert answer.status_code == 401


async def test_errors_have_the_form_of_the_standard(api: Api) -> None:
    client = await new_client(api, "keys:read")
    good = {"grant_type": "client_credentials"}
    wrong = client | {"client_secret": "lcs_wrong"}
    unknown = client | {"id": "client_nobody\x00"}
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"data": {}, "headers": basic(client)}, 400, "invalid_request"),
        ({"data": {"grant_type": "password"}, "headers": basic(client)}, 400, "unsupported_grant_type"),
        ({"data": good, "headers": basic(wrong)}, 401, "invalid_client"),
        ({"data": good, "headers": basic(unknown)}, 401, "invalid_client"),
        ({"data": good}, 401, "invalid_client"),
        ({"data": good, "headers": {"Authorization": "Basic ???"}}, 401, "invalid_client"),
        ({"data": good, "headers": {"Authorization": "Bearer x"}}, 401, "invalid_client"),
        ({"data": good | {"scope": "events:write"}, "headers": basic(client)}, 400, "invalid_scope"),
        ({"data": good | {"scope": "\x00🌸"}, "headers": basic(client)}, 400, "invalid_scope"),
        ({"json": good, "headers": basic(client)}, 400, "invalid_request"),
        ({"content": b"grant_type=a&grant_type=b", "headers": basic(client) | FORM}, 400, "invalid_request"),
        ({"content": b"\xff\xfe", "headers": basic(client) | FORM}, 400, "invalid_request"),
        ({"data": good | {"client_secret": "x"}, "headers": basic(client)}, 400, "invalid_request"),
    ]
    for request, status, error in cases:
        answer = await api.client.post("/oauth2/token", **request)
        assert (answer.status_code, answer.json().get("error")) == (status, error), request
        assert answer.headers["cache-control"] == "no-store"
        if status == 401:
            assert answer.headers["www-authenticate"].startswith("Basic")
    in_form = good | {"client_id": client["id"], "client_secret": client["client_secret"]}
    assert (await api.client.post("/oauth2/token", data=in_form)).status_code == 200


def _b64(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


async def test_algorithm_confusion_is_refused(api: Api) -> None:
    """Tokens that verify under another reading of the header: `none`, HMAC with the public key, a key of their own."""
    client = await new_client(api, "keys:read")
    genuine = await token_of(api, client)
    header, claims = jwt.get_unverified_header(genuine), jwt.get_unverified_claims(genuine)
    (published,) = (await api.client.get("/.well-known/jwks.json")).json()["keys"]
    public_pem = jwk.construct(published, "RS256").to_pem()
    payload = _b64(claims)
    forged = [
        f"{_b64({**header, 'alg': 'none'})}.{payload}.",
        f"{_b64({**header, 'alg': 'None'})}.{payload}.{genuine.rsplit('.', 1)[1]}",
        f"{_b64({**header, 'alg': 'RS512'})}.{payload}.{genuine.rsplit('.', 1)[1]}",
    ]
    for secret in (public_pem, public_pem.strip(), published["n"].encode()):
        for algorithm in ("HS256", "HS512"):
            signed = f"{_b64({**header, 'alg': algorithm})}.{payload}"
            digest = hmac.new(secret, signed.encode(), getattr(hashlib, f"sha{algorithm[2:]}")).digest()
            forged.append(f"{signed}.{_b64(digest)}")
    own = tokens.TokenSigner.from_settings(api.app.state.lily.settings)  # same issuer, another key
    mine = own.issue(subject=client["id"], tenant=claims["tenant"], scopes=frozenset({"admin"}))
    forged.append(mine)
    own_private = own._current.private
    for extra in ({"kid": header["kid"]}, {"jwk": own._current.public_jwk}, {"jku": "http://evil.test"}, {}):
        forged.append(jwt.encode(claims, own_private, algorithm="RS256", headers=extra))
    forged.append(genuine[:-6] + "AAAAAA")
    for token in forged:
        answer = await api.client.get("/v1/keys", headers=bearer(token))
        assert (answer.status_code, answer.json()["type"]) == (401, "urn:lily:problem:invalid-credentials"), (
            token
        )
    assert (await api.client.get("/v1/keys", headers=bearer(genuine))).status_code == 200


@pytest.mark.parametrize(
    "change",
    [
        {"aud": "other"},
        {"aud": None},
        {"iss": "http://evil.test"},
        {"exp": 1},
        {"exp": None},
        {"exp": "soon"},
        {"sub": None},
        {"sub": "client_nobody"},
        {"tenant": "another"},
        {"tenant": None},
        {"jti": None},
        {"iat": None},
        {"scope": ["admin"]},
        {"scope": "admin tenants:write"},
    ],
)
async def test_every_claim_counts(api: Api, change: dict[str, Any]) -> None:
    """Signed with the right key, and still refused (or, for scopes, no more than the client has)."""
    client = await new_client(api, "audit:read")
    claims = jwt.get_unverified_claims(await token_of(api, client)) | change
    claims = {name: value for name, value in claims.items() if value is not None}
    current = api.app.state.lily.signer._current
    token = jwt.encode(claims, current.private, algorithm="RS256", headers={"kid": current.kid})
    answer = await api.client.get("/v1/keys", headers=bearer(token))
    assert answer.status_code == (403 if change.get("scope") == "admin tenants:write" else 401), answer.text


async def test_expired_tokens_are_told_so(api: Api) -> None:
    client = await new_client(api, "audit:read")
    claims = jwt.get_unverified_claims(await token_of(api, client)) | {"exp": int(time.time()) - 60}
    current = api.app.state.lily.signer._current
    token = jwt.encode(claims, current.private, algorithm="RS256", headers={"kid": current.kid})
    answer = await api.client.get("/v1/audit", headers=bearer(token))
    assert answer.json()["type"] == "urn:lily:problem:expired-credentials"


async def test_clients_grant_no_more_than_their_creator_has(api: Api) -> None:
    tenant = await api.tenant()
    small = bearer((await api.key(tenant, "keys:write", "keys:read"))["key"])
    big = await new_client(api, "admin", tenant=tenant)
    body = {"name": "c", "scopes": ["admin"]}
    assert (await api.client.post("/v1/clients", json=body, headers=small)).status_code == 403
    answer = await api.client.post(f"/v1/clients/{big['id']}/rotate", json={}, headers=small)
    assert answer.status_code == 403
    mine = (await api.client.post("/v1/clients", json=body | {"scopes": ["keys:read"]}, headers=small)).json()
    answer = await api.client.patch(f"/v1/clients/{mine['id']}", json={"scopes": ["admin"]}, headers=small)
    assert answer.status_code == 403
