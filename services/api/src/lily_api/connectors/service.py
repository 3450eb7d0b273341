"""The life of a connector."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import ValidationError
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api import audit
from lily_api.auth import credentials
from lily_api.auth.principal import Principal
from lily_api.capture import service as capture
from lily_api.capture.reconciler import Look
from lily_api.connectors import repository
from lily_api.connectors.schemas import ConnectorCreate, ConnectorPatch, ConnectorRemoved, SecretRotate
from lily_api.enforcement.databases import service as enforced
from lily_api.services import Services
from lily_common.errors import ConflictError, FieldError, InvalidInputError, NotFoundError
from lily_connectors import registry
from lily_connectors.config import ConnectorConfig
from lily_connectors.debezium.config import SourceConfig
from lily_connectors.models import Connector
from lily_connectors.registry import Kind
from lily_connectors.secrets import Secret, open_sealed, rotated, seal
from lily_connectors.vendors.postgres_policies.config import Config as EnforcedConfig


async def create(
    services: Services, principal: Principal, wanted: ConnectorCreate
) -> tuple[Connector, str | None]:
    """The connector and, this once, its secret."""
    kind = registry.kind(wanted.kind)
    if kind.direction == "outbound" and not kind.has_enforcing:
        message = f"'{kind.name}' is a sink: make a subscription with it instead"
        raise InvalidInputError(message, [FieldError("body.kind", message)])
    config = parse_config(kind, wanted.config)
    connector_id = credentials.new_id("con")
    if isinstance(config, SourceConfig):
        return await _create_source(services, principal, wanted, connector_id, config), None
    if isinstance(config, EnforcedConfig):
        return await _create_enforced(services, principal, wanted, connector_id, config), None
    secret = wanted.secret.get_secret_value() if wanted.secret else kind.new_secret()
    connector = Connector(
        id=connector_id,
        tenant=principal.tenant,
        kind=kind.name,
        name=wanted.name,
        direction=kind.direction,
        config=config.model_dump(mode="json"),
        secrets=_sealed(services, principal.tenant, connector_id, [Secret(secret)]) if secret else None,
        status="active",
        created_by=principal.subject,
    )
    async with services.db.begin() as session:
        await _add(session, principal, connector)
    return connector, secret


async def _create_source(
    services: Services, principal: Principal, wanted: ConnectorCreate, connector_id: str, config: SourceConfig
) -> Connector:
    """A connector that Kafka Connect runs: wanted in the same transaction, carried out after it."""
    if wanted.secret is not None:
        message = "a source of change data is not called; its password belongs into config.password"
        raise InvalidInputError(message, [FieldError("body.secret", message)])
    await capture.check_available(services)
    await capture.check_address(services, config)
    kind = registry.kind(wanted.kind)
    tenant = principal.tenant
    connector = Connector(
        id=connector_id,
        tenant=tenant,
        kind=kind.name,
        name=wanted.name,
        direction=kind.direction,
        config=config.model_dump(mode="json"),
        secrets=capture.sealed(services, tenant, connector_id, capture.password_of(config)),
        status="active",
        created_by=principal.subject,
    )
    async with services.db.begin() as session:
        session.add(connector)
        await _flush(session, wanted.name)
        await capture.add(session, connector, config.source)
        await _add(session, principal, connector)
    await capture.carry_out(services, connector)
    return connector


async def _create_enforced(
    services: Services,
    principal: Principal,
    wanted: ConnectorCreate,
    connector_id: str,
    config: EnforcedConfig,
) -> Connector:
    """A database that Lily keeps: wanted in the same transaction, carried out after it."""
    if wanted.secret is not None:
        message = "a database is not called; its password belongs into config.password"
        raise InvalidInputError(message, [FieldError("body.secret", message)])
    await capture.check_address(services, config)
    kind = registry.kind(wanted.kind)
    connector = Connector(
        id=connector_id,
        tenant=principal.tenant,
        kind=kind.name,
        name=wanted.name,
        direction=kind.direction,
        config=config.model_dump(mode="json"),
        secrets=capture.sealed(services, principal.tenant, connector_id, capture.password_of(config)),
        status="active",
        created_by=principal.subject,
    )
    async with services.db.begin() as session:
        await _add(session, principal, connector)
        await enforced.add(session, connector)
    await enforced.carry_out(services, connector)
    return connector


async def _add(session: AsyncSession, principal: Principal, connector: Connector) -> None:
    session.add(connector)
    await _flush(session, connector.name)
    await session.refresh(connector)
    detail = {"kind": connector.kind, "name": connector.name}
    await audit.record(session, principal, "connector.create", f"connector:{connector.id}", detail)


async def get(services: Services, principal: Principal, connector_id: str) -> Connector:
    async with services.db() as session:
        return _found(await repository.get(session, principal.tenant, connector_id))


async def list_page(
    services: Services,
    principal: Principal,
    kind: str | None,
    after: tuple[datetime, str] | None,
    limit: int,
) -> list[Connector]:
    async with services.db() as session:
        return await repository.list_page(session, principal.tenant, kind, after, limit)


async def patch(
    services: Services, principal: Principal, connector_id: str, wanted: ConnectorPatch
) -> Connector:
    captured = followed = False
    async with services.db.begin() as session:
        connector = _found(await repository.get(session, principal.tenant, connector_id, lock=True))
        if wanted.name is not None:
            connector.name = wanted.name
        if wanted.config is not None:
            await _replace_config(services, connector, wanted.config)
        if wanted.status is not None:
            connector.status = wanted.status
        await _flush(session, connector.name)
        if wanted.config is not None or wanted.status is not None:
            captured = await capture.change(session, connector)
            followed = await enforced.change(session, connector)
        await session.refresh(connector)
        changed = sorted(wanted.model_dump(exclude_none=True))
        await audit.record(
            session, principal, "connector.update", f"connector:{connector_id}", {"changed": changed}
        )
    if captured:
        await capture.carry_out(services, connector)
    if followed:
        await enforced.carry_out(services, connector)
    return connector


async def _replace_config(services: Services, connector: Connector, wanted: dict[str, Any]) -> None:
    kind = registry.kind(connector.kind)
    if kind.has_enforcing:
        kept = parse_config(kind, capture.with_held_password(services, connector, wanted))
        assert isinstance(kept, EnforcedConfig)
        enforced.check_fixed(connector.config, kept)
        await capture.check_address(services, kept)
        connector.config = kept.model_dump(mode="json")
        connector.secrets = capture.sealed(
            services, connector.tenant, connector.id, capture.password_of(kept)
        )
        return
    if not kind.has_capture:
        connector.config = parse_config(kind, wanted).model_dump(mode="json")
        return
    config = parse_config(kind, capture.with_held_password(services, connector, wanted))
    assert isinstance(config, SourceConfig)
    capture.check_fixed(connector.config, config)
    await capture.check_address(services, config)
    connector.config = config.model_dump(mode="json")
    connector.secrets = capture.sealed(services, connector.tenant, connector.id, capture.password_of(config))


async def rotate_secret(
    services: Services, principal: Principal, connector_id: str, wanted: SecretRotate
) -> tuple[Connector, str]:
    """A new secret; those valid until now stay so for the grace."""
    now = datetime.now(UTC)
    grace = timedelta(seconds=wanted.grace_seconds)
    async with services.db.begin() as session:
        connector = _found(await repository.get(session, principal.tenant, connector_id, lock=True))
        kind = registry.kind(connector.kind)
        secret = wanted.secret.get_secret_value() if wanted.secret else kind.new_secret()
        if secret is None or not kind.config.needs_secret:
            raise ConflictError(f"a connector of kind '{kind.name}' has no secret", code="no-secret")
        held = open_sealed(services.secrets, connector.tenant, connector.id, connector.secrets)
        renewed = rotated(held, secret, now, grace)
        connector.secrets = _sealed(services, connector.tenant, connector.id, renewed)
        await session.flush()
        await session.refresh(connector)
        detail = {"old_secret_expires_at": now + grace}
        await audit.record(session, principal, "connector.rotate", f"connector:{connector_id}", detail)
    return connector, secret


async def remove(services: Services, principal: Principal, connector_id: str) -> ConnectorRemoved | None:
    """Its webhook URL is unknown from now on. What it brought stays. For a source of change data: what is left of it."""
    async with services.db.begin() as session:
        connector = _found(await repository.get(session, principal.tenant, connector_id, lock=True))
        await repository.remove(session, principal.tenant, connector_id)
        captured = await capture.drop(session, connector)
        followed = await enforced.drop(session, connector)
        detail = {"kind": connector.kind, "name": connector.name}
        await audit.record(session, principal, "connector.delete", f"connector:{connector_id}", detail)
    if followed:
        return _restored(connector_id, await enforced.carry_out(services, connector))
    return _removed(connector_id, await capture.carry_out(services, connector)) if captured else None


def _restored(connector_id: str, problem: str | None) -> ConnectorRemoved:
    detail = problem or "every reader has back what it had"
    return ConnectorRemoved(id=connector_id, removed=problem is None, detail=detail)


def _removed(connector_id: str, look: Look | None) -> ConnectorRemoved:
    if look is None:
        return ConnectorRemoved(id=connector_id, removed=False, detail="it is being removed")
    detail = look.problem or "nothing of it is left but the topics and tables with what it brought"
    return ConnectorRemoved(id=connector_id, removed=look.done, detail=detail)


def parse_config(kind: Kind, config: dict[str, Any]) -> ConnectorConfig:
    """The configuration with its defaults. Raises InvalidInputError (422) naming each wrong field."""
    try:
        return kind.config.model_validate(config)
    except ValidationError as invalid:
        errors = [
            FieldError(".".join(["body.config", *(str(part) for part in item["loc"])])[:500], item["msg"])
            for item in invalid.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise InvalidInputError(f"{errors[0].field}: {errors[0].message}", errors) from None


def webhook_url(services: Services, connector: Connector) -> str | None:
    """Where the vendor has to call, for kinds that are called."""
    if not registry.kind(connector.kind).webhook:
        return None
    return f"{services.settings.url.rstrip('/')}/webhooks/{connector.id}"


def _sealed(services: Services, tenant: str, connector_id: str, secrets: list[Secret]) -> str:
    return seal(services.secrets, tenant, connector_id, secrets)


async def _flush(session: AsyncSession, name: str) -> None:
    try:
        await session.flush()
    except IntegrityError:
        raise ConflictError(f"there is a connector named '{name}' already", code="name-taken") from None


def _found(connector: Connector | None) -> Connector:
    if connector is None:
        raise NotFoundError("there is no such connector")
    return connector
