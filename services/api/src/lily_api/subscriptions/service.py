"""The life of a subscription."""

from __future__ import annotations

import secrets as random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api import audit
from lily_api.auth.principal import Principal
from lily_api.services import Services
from lily_api.subscriptions import repository
from lily_api.subscriptions.schemas import SecretRotate, SubscriptionCreate, SubscriptionPatch
from lily_common.envelope import rfc3339
from lily_common.errors import ConflictError, FieldError, InvalidInputError, NotFoundError
from lily_connectors.contract import SinkConfig
from lily_connectors.egress.digests import asset_key, delivery_key, identity_key, lane_key
from lily_connectors.egress.matching import check_types, compile_filters
from lily_connectors.egress.models import ACTIVE, DELETED, PAUSED, Delivery, NoticeRow, Subscription
from lily_connectors.egress.sealing import NOTHING_SEALED, seal, unseal
from lily_connectors.secrets import Secret, rotated
from lily_connectors.sinks.catalogue import parse_config, sink_class
from lily_connectors.sinks.kafka import KafkaConfig
from lily_connectors.sinks.webhook import new_secret
from lily_connectors.ssrf import Guard

MAX_SUBSCRIPTIONS = 500
TEST_TYPE = "lily.subscription.test"


async def create(
    services: Services, principal: Principal, wanted: SubscriptionCreate
) -> tuple[Subscription, str | None]:
    """The subscription and, this once, its signing secret (None for sinks that are not signed)."""
    _check_matching(wanted.types, wanted.filters)
    config = _checked_sink(services, wanted.sink)
    kind = str(wanted.sink["kind"])
    tenant = principal.tenant
    subscription_id = f"sub_{random.token_hex(12)}"
    secret = new_secret() if sink_class(kind).signed else None
    signing = [Secret(secret)] if secret is not None else []
    async with services.db.begin() as session:
        if await repository.count(session, tenant) >= MAX_SUBSCRIPTIONS:
            raise ConflictError(
                f"a tenant has at most {MAX_SUBSCRIPTIONS} subscriptions", "too-many-subscriptions"
            )
        subscription = Subscription(
            id=subscription_id,
            tenant=tenant,
            name=wanted.name,
            kind=kind,
            config=config.model_dump(mode="json"),
            sealed=seal(services.secrets, tenant, subscription_id, config, signing),
            types=wanted.types,
            filters=wanted.filters,
            retry=wanted.retry.model_dump(mode="json"),
            timeout_seconds=wanted.timeout_seconds,
        )
        session.add(subscription)
        await session.flush()
        await session.refresh(subscription)
        detail = {"name": wanted.name, "kind": kind, "types": wanted.types, "filters": wanted.filters}
        await audit.record(session, principal, "subscription.create", _target(subscription), detail)
    return subscription, secret


async def get(services: Services, principal: Principal, subscription_id: str) -> Subscription:
    async with services.db() as session:
        return _found(await repository.get(session, principal.tenant, subscription_id))


async def list_page(
    services: Services, principal: Principal, after: tuple[datetime, str] | None, limit: int
) -> list[Subscription]:
    async with services.db() as session:
        return await repository.list_page(session, principal.tenant, after, limit)


async def patch(
    services: Services, principal: Principal, subscription_id: str, wanted: SubscriptionPatch
) -> Subscription:
    """Overlay the given fields; egress matches by the new ones from the commit on."""
    _check_matching(wanted.types or [], wanted.filters or [])
    async with services.db.begin() as session:
        subscription = await _own(session, principal, subscription_id)
        if wanted.sink is not None:
            _replace_sink(services, subscription, wanted.sink)
        fields: dict[str, Any] = wanted.model_dump(mode="json", exclude={"sink"}, exclude_none=True)
        for name, value in fields.items():
            setattr(subscription, name, value)
        changed = sorted([*fields, *(["sink"] if wanted.sink is not None else [])])
        await _changed(session, principal, subscription, "patch", {"fields": changed})
    return subscription


async def delete(services: Services, principal: Principal, subscription_id: str) -> None:
    """It matches nothing from the commit on; egress cancels what is pending. Its deliveries stay readable."""
    async with services.db.begin() as session:
        subscription = await _own(session, principal, subscription_id)
        subscription.status = DELETED
        subscription.sealed = NOTHING_SEALED
        await _changed(session, principal, subscription, "delete")


async def pause(services: Services, principal: Principal, subscription_id: str) -> Subscription:
    """Deliveries are still made, and wait. Pausing twice is no error; what is disabled stays so."""
    async with services.db.begin() as session:
        subscription = _found(await repository.get(session, principal.tenant, subscription_id, lock=True))
        if subscription.status == ACTIVE:
            subscription.status = PAUSED
            await _changed(session, principal, subscription, "pause")
        elif subscription.status != PAUSED:
            raise ConflictError("the subscription is disabled; resume it", code="subscription-disabled")
    return subscription


async def resume(services: Services, principal: Principal, subscription_id: str) -> Subscription:
    """From paused or disabled. What has waited goes out, in order."""
    async with services.db.begin() as session:
        subscription = _found(await repository.get(session, principal.tenant, subscription_id, lock=True))
        if subscription.status != ACTIVE:
            subscription.status, subscription.status_reason = ACTIVE, None
            await _changed(session, principal, subscription, "resume")
    # A transaction of its own: batches that still saw it paused have committed before the change above did or see it.
    async with services.db.begin() as session:
        await repository.wake_heads(session, principal.tenant, subscription_id)
    return subscription


async def rotate_secret(
    services: Services, principal: Principal, subscription_id: str, wanted: SecretRotate
) -> tuple[str, datetime | None]:
    """(new secret, until when the old one signs too)."""
    now = datetime.now(UTC)
    overlap = timedelta(seconds=wanted.grace_seconds)
    async with services.db.begin() as session:
        subscription = await _own(session, principal, subscription_id)
        if not sink_class(subscription.kind).signed:
            raise ConflictError(f"{subscription.kind} deliveries are not signed", code="not-signed")
        fields, signing = unseal(services.secrets, principal.tenant, subscription_id, subscription.sealed)
        secret = new_secret()
        config = parse_config(subscription.kind, fields)
        subscription.sealed = seal(
            services.secrets,
            principal.tenant,
            subscription_id,
            config,
            rotated(signing, secret, now, overlap),
        )
        detail = {"grace_seconds": wanted.grace_seconds}
        await _changed(session, principal, subscription, "rotate-secret", detail)
    return secret, now + overlap if overlap else None


async def send_test(services: Services, principal: Principal, subscription_id: str) -> UUID:
    """Put a test event into the table for egress to deliver like any other; returns the delivery's id."""
    tenant, now = principal.tenant, datetime.now(UTC)
    async with services.db.begin() as session:
        subscription = _found(await repository.get(session, tenant, subscription_id, lock=True))
        if subscription.status != ACTIVE:
            raise ConflictError(f"the subscription is {subscription.status}", code="subscription-not-active")
        event = _test_event(tenant, subscription, now)
        notice_id = identity_key(tenant, event["source"], event["id"])
        notice = NoticeRow(
            tenant=tenant,
            id=notice_id,
            asset=asset_key(tenant, event["subject"]),
            source=event["source"],
            event_id=event["id"],
            type=TEST_TYPE,
            subject=event["subject"],
            transition="test",
            body=orjson.dumps(event).decode(),
            accepted_at=now,
        )
        session.add(notice)
        await session.flush()
        delivery = Delivery(
            tenant=tenant,
            id=delivery_key(subscription.id, notice_id),
            subscription_id=subscription.id,
            notice_id=notice_id,
            lane=lane_key(subscription.id, event["subject"]),
            next_attempt_at=now,
            committed_at=now,
        )
        session.add(delivery)
        await session.flush()
        await repository.notify(session)
        await audit.record(session, principal, "subscription.test", _target(subscription))
    return delivery.id


async def replay_dead(services: Services, principal: Principal, subscription_id: str) -> int:
    """Try every dead delivery again, in order, with a new set of attempts; returns how many."""
    async with services.db.begin() as session:
        subscription = _found(await repository.get(session, principal.tenant, subscription_id))
        if subscription.status not in (ACTIVE, PAUSED):
            raise ConflictError("the subscription is disabled; resume it first", code="subscription-disabled")
        revived = await repository.revive_dead(session, principal.tenant, subscription_id)
        if subscription.status == ACTIVE:
            await repository.wake_heads(session, principal.tenant, subscription_id)
        await audit.record(
            session, principal, "subscription.replay-dead", _target(subscription), {"replayed": revived}
        )
    return revived


def _check_matching(types: list[str], filters: list[dict[str, Any]]) -> None:
    with _named("body"):
        check_types(types)
        compile_filters(filters)


def _checked_sink(services: Services, fields: dict[str, Any]) -> SinkConfig:
    kind = fields.get("kind")
    with _named("body"):
        if not isinstance(kind, str):
            raise InvalidInputError(
                "sink.kind: is required", [FieldError("sink.kind", "is required: a string")]
            )
        if kind == KafkaConfig().kind:
            message = "the tenant's Kafka topic has its managed subscription already; it cannot be added"
            raise InvalidInputError(f"sink.kind: {message}", [FieldError("sink.kind", message)])
        config = parse_config(kind, fields)
        guard = Guard(services.settings.egress_allow_networks)
        for name, url in config.urls().items():
            problem = guard.check_url(url)
            if problem is not None:
                raise InvalidInputError(
                    f"sink.{name}: {problem}", [FieldError(f"sink.{name}", problem)], code="address-refused"
                )
    return config


def _replace_sink(services: Services, subscription: Subscription, fields: dict[str, Any]) -> None:
    if fields.get("kind") != subscription.kind:
        message = f"must stay '{subscription.kind}'; make another subscription for another sink"
        raise InvalidInputError(f"body.sink.kind: {message}", [FieldError("body.sink.kind", message)])
    config = _checked_sink(services, fields)
    _, signing = unseal(services.secrets, subscription.tenant, subscription.id, subscription.sealed)
    subscription.config = config.model_dump(mode="json")
    subscription.sealed = seal(services.secrets, subscription.tenant, subscription.id, config, signing)


async def _own(session: AsyncSession, principal: Principal, subscription_id: str) -> Subscription:
    """The subscription, locked; the managed one cannot be changed."""
    subscription = _found(await repository.get(session, principal.tenant, subscription_id, lock=True))
    if subscription.managed:
        raise ConflictError("the managed subscription can only be paused and resumed", code="managed")
    return subscription


async def _changed(
    session: AsyncSession,
    principal: Principal,
    subscription: Subscription,
    verb: str,
    detail: dict[str, Any] | None = None,
) -> None:
    subscription.updated_at = datetime.now(UTC)
    await session.flush()
    await audit.record(session, principal, f"subscription.{verb}", _target(subscription), detail)


def _target(subscription: Subscription) -> str:
    return f"subscription:{subscription.id}"


def _found(subscription: Subscription | None) -> Subscription:
    if subscription is None:
        raise NotFoundError("there is no such subscription")
    return subscription


def _test_event(tenant: str, subscription: Subscription, now: datetime) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": uuid4().hex,
        "source": "/lily/subscriptions",
        "type": TEST_TYPE,
        "subject": f"lily://subscriptions/{subscription.id}",
        "time": rfc3339(now),
        "datacontenttype": "application/json",
        "tenantid": tenant,
        "transition": "test",
        "data": {
            "subscription_id": subscription.id,
            "name": subscription.name,
            "message": "Lily can reach you.",
        },
    }


class _named:  # noqa: N801  (used like a function)
    """Puts a prefix before the field names of an InvalidInputError raised within."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, InvalidInputError):
            error.detail = f"{self._prefix}.{error.detail}"
            error.errors = [FieldError(f"{self._prefix}.{e.field}", e.message) for e in error.errors]
