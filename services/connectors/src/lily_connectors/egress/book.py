"""The worker's copy of all subscriptions and policies, by tenant, ready to match and to send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

from psycopg.types.json import Jsonb
from pydantic import ValidationError

from lily_common.crypto import SecretBox
from lily_common.errors import LilyError
from lily_common.logs import get_logger
from lily_common.policies.model import Policy
from lily_common.policies.model import read as read_policy
from lily_connectors.contract import AnySink
from lily_connectors.egress.connections import Connection
from lily_connectors.egress.managed import managed_row
from lily_connectors.egress.matching import Predicate, compile_filters
from lily_connectors.egress.models import ACTIVE
from lily_connectors.egress.retry import RetryPolicy
from lily_connectors.egress.sealing import unseal
from lily_connectors.secrets import Secret, valid
from lily_connectors.sinks.catalogue import build, sink_class

log = get_logger(__name__)

_LOAD: LiteralString = """
SELECT g.tenant, g.generation, s.id, s.kind, s.managed, s.sealed, s.types, s.filters, s.retry, s.timeout_seconds,
       s.status
FROM subscription_generations g
LEFT JOIN subscriptions s ON s.tenant = g.tenant AND s.status IN ('active', 'paused')
WHERE %(tenants)s::text[] IS NULL OR g.tenant = ANY(%(tenants)s::text[])
"""
_POLICIES: LiteralString = """
SELECT tenant, body FROM declarations
WHERE kind = 'policy' AND status = 'active' AND (%(tenants)s::text[] IS NULL OR tenant = ANY(%(tenants)s::text[]))
ORDER BY tenant, name
"""
_ADD_MANAGED: LiteralString = """
INSERT INTO subscriptions (id, tenant, name, kind, managed, config, sealed)
VALUES (%(id)s, %(tenant)s, %(name)s, %(kind)s, %(managed)s, %(config)s, %(sealed)s)
ON CONFLICT DO NOTHING
"""
_TENANTS_WITHOUT_MANAGED: LiteralString = """
SELECT t.id FROM tenants t
WHERE NOT EXISTS (SELECT FROM subscriptions s WHERE s.tenant = t.id AND s.managed)
"""


@dataclass
class Subscriber:
    """A subscription that is active or paused. `types` empty means all types."""

    id: str
    tenant: str
    kind: str
    managed: bool
    status: str
    types: frozenset[str]
    matches: Predicate
    retry: RetryPolicy
    timeout: float
    sealed: str
    box: SecretBox
    _sink: AnySink | None = None
    _sink_until: datetime | None = None

    @property
    def active(self) -> bool:
        return self.status == ACTIVE

    @property
    def concurrency(self) -> int:
        """Most attempts at a time."""
        return sink_class(self.kind).concurrency

    def wants(self, event: Mapping[str, Any]) -> bool:
        return (not self.types or event["type"] in self.types) and self.matches(event)

    def sink(self, now: datetime) -> AnySink:
        """The way out, built when first used and again when a signing secret has run out.

        Raises ValueError or LilyError when what is stored cannot be opened or understood.
        """
        if self._sink is None or (self._sink_until is not None and self._sink_until <= now):
            config, signing = unseal(self.box, self.tenant, self.id, self.sealed)
            self._sink = build(self.kind, config, valid(signing, now))
            self._sink_until = _next_expiry(signing, now)
        return self._sink


def _next_expiry(secrets: Sequence[Secret], now: datetime) -> datetime | None:
    return min((s.expires for s in secrets if s.expires is not None and s.expires > now), default=None)


class Book:
    """All subscribers. Changed by one task at a time within the event loop; reads need no lock."""

    def __init__(self, box: SecretBox) -> None:
        self._box = box
        self._by_tenant: dict[str, list[Subscriber]] = {}
        self._by_id: dict[str, Subscriber] = {}
        self._policies: dict[str, list[Policy]] = {}
        self._generations: dict[str, int] = {}

    def get(self, subscription_id: str) -> Subscriber | None:
        """The subscriber, or None when the subscription is disabled or deleted."""
        return self._by_id.get(subscription_id)

    def all(self) -> Iterable[Subscriber]:
        return self._by_id.values()

    def matching(self, tenant: str, event: Mapping[str, Any]) -> list[Subscriber]:
        return [subscriber for subscriber in self._by_tenant.get(tenant, ()) if subscriber.wants(event)]

    def policies(self, tenant: str) -> Sequence[Policy]:
        """The tenant's policies, by name."""
        return self._policies.get(tenant, ())

    def has_managed(self, tenant: str) -> bool:
        return tenant in self._generations  # a tenant's first subscription is the managed one

    def outdated(self, generations: Mapping[str, int]) -> list[str]:
        """Tenants whose subscriptions or policies have changed since they were loaded."""
        return [name for name, number in generations.items() if self._generations.get(name) != number]

    async def load(self, connection: Connection, tenants: Sequence[str] | None = None) -> None:
        """Read the subscriptions and policies of these tenants (None: of all).

        The generations are read before the policies: a policy that changes in between is read anew at the next look.
        """
        wanted = {"tenants": list(tenants) if tenants is not None else None}
        cursor = await connection.execute(_LOAD, wanted)
        loaded: dict[str, tuple[int, list[Subscriber]]] = {}
        policies: dict[str, list[Policy]] = {}
        for tenant, generation, *columns in await cursor.fetchall():
            _, subscribers = loaded.setdefault(tenant, (generation, []))
            if columns[0] is not None:
                subscriber = self._subscriber(tenant, columns)
                if subscriber is not None:
                    subscribers.append(subscriber)
        for tenant, body in await (await connection.execute(_POLICIES, wanted)).fetchall():
            policies.setdefault(tenant, []).append(read_policy(body))
        for tenant, (generation, subscribers) in loaded.items():
            self._replace(tenant, generation, subscribers, policies.get(tenant, []))

    async def ensure_managed(self, connection: Connection, tenants: Iterable[str]) -> None:
        """Give these tenants their managed subscription, and load it."""
        names = sorted(set(tenants))
        for tenant in names:
            row = managed_row(tenant)
            await connection.execute(_ADD_MANAGED, row | {"config": Jsonb(row["config"])})
        await self.load(connection, names)

    async def tenants_without_managed(self, connection: Connection) -> list[str]:
        cursor = await connection.execute(_TENANTS_WITHOUT_MANAGED)
        return [row[0] for row in await cursor.fetchall()]

    def _replace(
        self, tenant: str, generation: int, subscribers: list[Subscriber], policies: list[Policy]
    ) -> None:
        if generation < self._generations.get(tenant, 0):
            return  # a slower reader brings what is old already
        for old in self._by_tenant.get(tenant, ()):
            self._by_id.pop(old.id, None)
        self._by_tenant[tenant] = subscribers
        self._policies[tenant] = policies
        self._by_id.update((subscriber.id, subscriber) for subscriber in subscribers)
        self._generations[tenant] = generation

    def _subscriber(self, tenant: str, columns: Sequence[Any]) -> Subscriber | None:
        """The subscriber in a row of `_LOAD`, or None (and a log line) when it cannot be used."""
        subscription_id, kind, managed, sealed, types, filters, retry, timeout, status = columns
        try:
            return Subscriber(
                id=subscription_id,
                tenant=tenant,
                kind=kind,
                managed=managed,
                status=status,
                types=frozenset(types),
                matches=compile_filters(filters),
                retry=RetryPolicy.model_validate(retry),
                timeout=timeout,
                sealed=sealed,
                box=self._box,
            )
        except (LilyError, ValidationError) as broken:  # the API checked it: only a hand-made row comes here
            log.error("subscription cannot be used", subscription=subscription_id, error=str(broken))
            return None
