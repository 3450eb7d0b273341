"""The key that Trino asks with: of the stack's own tenant, good for asking what may be seen and for nothing else."""

from __future__ import annotations

import httpx

from lily_local import environment, secrets, tenant
from lily_local.components.model import Context
from lily_local.errors import UserError

_NAME = "embedded Trino"
_SCOPES = ["policies:enforce"]


def made(context: Context) -> str:
    """A new one; those of earlier starts are revoked. Raises UserError when the API refuses."""
    # Read anew: the tenant may have been made after this process began.
    kept = tenant.ensure(context.config, secrets.ensure(context.config.home))
    url = environment.public(context.config, kept)["LILY_URL"]
    bearer = {"Authorization": f"Bearer {kept.api_key}"}
    try:
        with httpx.Client(base_url=url, headers=bearer, timeout=30, trust_env=False) as client:
            earlier = client.get("/v1/keys", params={"limit": 500}).raise_for_status().json()["items"]
            key = client.post("/v1/keys", json={"name": _NAME, "scopes": _SCOPES}).raise_for_status().json()
            for old in earlier:
                if old["name"] == _NAME and old["revoked_at"] is None:
                    client.delete(f"/v1/keys/{old['id']}")
    except httpx.HTTPError as error:
        raise UserError(f"the API at {url} makes no key for Trino ({error}); see `lily logs api`") from error
    return str(key["key"])
