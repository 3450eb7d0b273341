"""Commands to the lake job, waited for."""

from __future__ import annotations

from typing import Any

from tests.support.poll import until
from tests.support.tenant import Tenant


def command(tenant: Tenant, name: str, *, seconds: float = 240, **args: Any) -> dict[str, Any]:
    """Give it and wait for its end; what the lake job says of it."""
    answer = tenant.client.post("/v1/commands", json={"command": name, "args": args})
    assert answer.status_code == 202, answer.text
    given = answer.json()["id"]

    def over() -> dict[str, Any] | None:
        found: dict[str, Any] = tenant.get(f"/v1/commands/{given}")
        return found if found["status"] in ("succeeded", "failed") else None

    found = until(over, f"{name} to end", deadline=seconds, pause=0.5)
    assert found is not None
    return found
