"""The authenticated caller and the scopes that exist."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """What a caller may do in its tenant. `admin` is everything in the tenant; `tenants:write` is the operator's."""

    EVENTS_WRITE = "events:write"
    ASSETS_READ = "assets:read"
    CONNECTORS_READ = "connectors:read"
    CONNECTORS_WRITE = "connectors:write"
    SUBSCRIPTIONS_READ = "subscriptions:read"
    SUBSCRIPTIONS_WRITE = "subscriptions:write"
    DELIVERIES_READ = "deliveries:read"
    DELIVERIES_WRITE = "deliveries:write"
    KEYS_READ = "keys:read"
    KEYS_WRITE = "keys:write"
    AUDIT_READ = "audit:read"
    COMMANDS_READ = "commands:read"
    COMMANDS_WRITE = "commands:write"
    STREAM_READ = "stream:read"
    TABLES_READ = "tables:read"
    TABLES_WRITE = "tables:write"
    PROPAGATION_READ = "propagation:read"
    PROPAGATION_WRITE = "propagation:write"
    POLICIES_READ = "policies:read"
    POLICIES_WRITE = "policies:write"
    POLICIES_ENFORCE = "policies:enforce"
    ERASURES_READ = "erasures:read"
    ERASURES_WRITE = "erasures:write"
    TENANTS_WRITE = "tenants:write"
    ADMIN = "admin"


#: Scopes that a key or client of a tenant can carry.
GRANTABLE = frozenset(Scope) - {Scope.TENANTS_WRITE}


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of one request.

    `tenant` is the tenant that the request acts in (empty only for the operator on routes that are not a tenant's).
    `subject` names the caller in the audit log: `key:<id>`, `client:<id>` or `operator`.
    """

    tenant: str
    subject: str
    scopes: frozenset[str]
    is_operator: bool = False

    def allows(self, scope: str) -> bool:
        if self.is_operator or scope in self.scopes:
            return True
        return Scope.ADMIN in self.scopes and scope != Scope.TENANTS_WRITE

    def lacking(self, scopes: frozenset[str]) -> frozenset[str]:
        """Those of `scopes` that this caller does not have and hence may not grant."""
        return frozenset(scope for scope in scopes if not self.allows(scope))
