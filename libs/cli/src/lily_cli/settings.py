"""Whom to talk to and as whom: flags first, then the environment, then the stack's `env` file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dotenv import dotenv_values

from lily_cli.errors import UsageError

DEFAULT_URL = "http://127.0.0.1:8080"
ENV_FILE = Path(".lily/env")


@dataclass(frozen=True)
class Settings:
    """One invocation's settings. Keys are kept out of its repr."""

    url: str
    api_key: str
    admin_key: str
    tenant: str
    tenant_flag: bool = False

    def __repr__(self) -> str:
        return f"Settings(url={self.url!r}, tenant={self.tenant!r})"

    def headers(self, *, operator: bool = False) -> dict[str, str]:
        """The headers that authenticate a request.

        An API key acts in its own tenant. `--tenant` asks for another one, which only the operator's key may do;
        without an API key the operator's key acts for the configured tenant. Raises UsageError without a fit key.
        """
        if operator:
            if not self.admin_key:
                raise UsageError("this needs the operator's key: pass --admin-key or set LILY_ADMIN_KEY")
            return {"Authorization": f"Bearer {self.admin_key}"}
        if self.api_key and not (self.tenant_flag and self.admin_key):
            return {"Authorization": f"Bearer {self.api_key}"}
        if self.admin_key and self.tenant:
            return {"Authorization": f"Bearer {self.admin_key}", "X-Lily-Tenant": self.tenant}
        if self.admin_key:
            raise UsageError("the operator acts for a tenant: pass --tenant or set LILY_TENANT")
        raise UsageError("no key: pass --api-key, set LILY_API_KEY, or start a stack with `lily up`")


def env_file(start: Path | None = None) -> Path | None:
    """`$LILY_HOME/env` when LILY_HOME is set, else the nearest `.lily/env` from `start` (the current folder) upwards."""
    if home := os.environ.get("LILY_HOME"):
        candidates = [Path(home) / "env"]
    else:
        here = (start or Path.cwd()).resolve()
        candidates = [folder / ENV_FILE for folder in (here, *here.parents)]
    return next((path for path in candidates if path.is_file()), None)


def read(
    url: str | None = None,
    api_key: str | None = None,
    admin_key: str | None = None,
    tenant: str | None = None,
) -> Settings:
    """The settings of this invocation; arguments are the flags, None when not given.

    A URL given by flag or environment without keys does not take the keys of the file: they are another server's.
    """
    path = env_file()
    found = {name: value or "" for name, value in dotenv_values(path).items()} if path else {}
    environment = os.environ
    stated_url = url or environment.get("LILY_URL") or ""
    if stated_url and found.get("LILY_URL", "").rstrip("/") != stated_url.rstrip("/"):
        found = {}

    def pick(flag: str | None, name: str, default: str = "") -> str:
        return flag or environment.get(name) or found.get(name) or default

    return Settings(
        url=pick(url, "LILY_URL", DEFAULT_URL).rstrip("/"),
        api_key=pick(api_key, "LILY_API_KEY"),
        admin_key=pick(admin_key, "LILY_ADMIN_KEY"),
        tenant=pick(tenant, "LILY_TENANT"),
        tenant_flag=tenant is not None,
    )
