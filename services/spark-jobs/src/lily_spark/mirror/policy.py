"""Tenants' field policies, kept fresh from the compacted topic `lily.tenants` by the driver."""

from __future__ import annotations

from typing import Any

import orjson

from lily_common.events import TENANTS_TOPIC
from lily_spark.sources.compacted import Compacted


def sensitive_fields(value: bytes) -> frozenset[str]:
    """The field names in one policy message. Raises ValueError when it is not one."""
    policy: Any = orjson.loads(value)
    names = policy.get("sensitive_fields") or [] if isinstance(policy, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("not a policy: sensitive_fields must be a list of field names")
    return frozenset(names)


class PolicyReader(Compacted[frozenset[str]]):
    """Tenant -> names of its sensitive fields.

    Without Kafka there is no answer but an error: mirroring under an unknown policy could publish what a tenant
    calls sensitive.
    """

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, TENANTS_TOPIC, "lily-mirror-policies", sensitive_fields)
