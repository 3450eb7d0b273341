"""The demo tenant and its API key, made through the API like anybody's; made once per stack."""

from __future__ import annotations

import httpx

from lily_local import environment, secrets
from lily_local.config import StackConfig
from lily_local.errors import UserError
from lily_local.secrets import Secrets

NAME = "demo"
_SCOPES = ["admin"]


def ensure(config: StackConfig, kept: Secrets) -> Secrets:
    """The secrets with a tenant and a key that the API takes; written to `.lily/env` when they are new.

    The API must be ready. Raises UserError with its answer when it refuses.
    """
    url = environment.public(config, kept)["LILY_URL"]
    with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        try:
            if kept.api_key and _is_valid(client, kept):
                return kept
            made = kept.with_tenant(NAME, _make_key(client, kept.admin_key))
        except httpx.HTTPStatusError as error:
            answer = f"{error.response.status_code}: {error.response.text[:300]}"
            raise UserError(f"the API refused to make the tenant {NAME} ({answer})") from error
        except httpx.HTTPError as error:
            raise UserError(f"the API at {url} does not answer ({error}); see `lily logs api`") from error
    secrets.save(config.home, made)
    environment.write_env_file(config, made)
    return made


def _is_valid(client: httpx.Client, kept: Secrets) -> bool:
    answer = client.get("/v1/me", headers=_bearer(kept.api_key))
    if answer.status_code == httpx.codes.UNAUTHORIZED:  # the database was emptied or the key revoked
        return False
    answer.raise_for_status()
    return True


def _make_key(client: httpx.Client, admin_key: str) -> str:
    operator = _bearer(admin_key)
    tenant = client.post("/v1/tenants", json={"id": NAME, "name": "Demo"}, headers=operator)
    if tenant.status_code != httpx.codes.CONFLICT:  # it may be there already
        tenant.raise_for_status()
    key = client.post(
        "/v1/keys",
        json={"name": "embedded stack", "scopes": _SCOPES},
        headers={**operator, "X-Lily-Tenant": NAME},
    )
    key.raise_for_status()
    return str(key.json()["key"])


def _bearer(credential: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential}"}
