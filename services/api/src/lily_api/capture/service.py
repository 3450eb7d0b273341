"""What the life of a connector means for its source: checks before, the row in the same transaction, a look after."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from lily_api.capture import repository
from lily_api.capture.addresses import judged_address, problem
from lily_api.capture.client import ConnectAwayError
from lily_api.capture.models import PAUSED, REMOVED, RUNNING, CaptureSource
from lily_api.capture.reconciler import Look, Reconciler
from lily_api.capture.words import MASK
from lily_api.services import Services
from lily_common.errors import ConflictError, FieldError, InvalidInputError, UnavailableError
from lily_connectors.debezium.config import SourceConfig
from lily_connectors.models import Connector
from lily_connectors.secrets import Secret, open_sealed, seal
from lily_connectors.ssrf import Guard
from lily_connectors.vendors.postgres_policies.config import Config as EnforcedConfig

#: Sources share the workers: a tenant must not fill them.
MAX_SOURCES = 50
#: How long a request waits for its change to be carried out; it is carried out in any case.
WAIT_SECONDS = 15.0
_WANTED = {"active": RUNNING, "paused": PAUSED}


async def check_available(services: Services) -> None:
    """Raises ConflictError (409) where no Connect is configured, UnavailableError (503) when it does not answer."""
    tools = _reconciler(services).tools
    if tools is None:
        raise ConflictError(
            "this Lily has no Kafka Connect to read databases with (LILY_CONNECT_URL and LILY_CONNECT_SECRETS_DIR)",
            code="connect-not-configured",
        )
    try:
        await tools.connect.ping()
    except ConnectAwayError as away:
        raise UnavailableError(
            f"{away}; in the embedded stack it is started by `lily up --with connect`",
            code="connect-unavailable",
            retry_after=5,
        ) from away


async def check_address(services: Services, config: SourceConfig | EnforcedConfig) -> None:
    """Raises InvalidInputError (422) when the database is nowhere that Lily connects to."""
    try:
        await judged_address(Guard(services.settings.egress_allow_networks), config.host, config.port)
    except OSError as error:
        message = problem(error, config.host)
        raise InvalidInputError(
            f"body.config.host: {message}", [FieldError("body.config.host", message)]
        ) from None


def password_of(config: SourceConfig | EnforcedConfig) -> str | None:
    """The password in a configuration that was given just now."""
    held = getattr(config, "password", None)
    return held.get_secret_value() if held is not None else None


def with_held_password(services: Services, connector: Connector, wanted: dict[str, Any]) -> dict[str, Any]:
    """A configuration to replace the connector's: without a password, or with the mask, it keeps the one that is held."""
    if wanted.get("password", MASK) != MASK:
        return wanted
    held = open_sealed(services.secrets, connector.tenant, connector.id, connector.secrets)
    plain = {name: value for name, value in wanted.items() if name != "password"}
    # MongoDB may have no user; with one it keeps its password.
    return {**plain, "password": held[0].value} if held and wanted.get("user") is not None else plain


def check_fixed(old: dict[str, Any], new: SourceConfig) -> None:
    """Raises InvalidInputError (422) when a field changes that the source's tables depend on."""
    fresh = new.model_dump(mode="json")
    errors = [
        FieldError(f"body.config.{name}", "cannot be changed: make another source")
        for name in sorted(new.FIXED)
        if fresh[name] != old.get(name)
    ]
    if errors:
        raise InvalidInputError(f"{errors[0].field}: {errors[0].message}", errors)


def sealed(services: Services, tenant: str, connector_id: str, password: str | None) -> str | None:
    if password is None:
        return None
    return seal(services.secrets, tenant, connector_id, [Secret(password)])


async def add(session: AsyncSession, connector: Connector, source: str) -> None:
    """In the transaction that makes the connector. Raises ConflictError when the tenant has such a source already."""
    if await repository.count(session, connector.tenant) >= MAX_SOURCES:
        raise ConflictError(f"a tenant has at most {MAX_SOURCES} sources", code="too-many-sources")
    row = CaptureSource(
        connector_id=connector.id,
        tenant=connector.tenant,
        kind=connector.kind,
        source=source,
        config=connector.config,
        secrets=connector.secrets,
        wanted=_WANTED[connector.status],
        revision=1,
    )
    session.add(row)
    try:
        await session.flush()
    except IntegrityError:
        raise ConflictError(
            f"there is a source named '{source}' already, or one that is still being removed",
            code="source-taken",
        ) from None


async def change(session: AsyncSession, connector: Connector) -> bool:
    """In the transaction that changes the connector; whether there is a source that follows."""
    row = await repository.get(session, connector.tenant, connector.id, lock=True)
    if row is None:
        return False
    row.config, row.secrets, row.wanted = connector.config, connector.secrets, _WANTED[connector.status]
    _bump(row)
    return True


async def drop(session: AsyncSession, connector: Connector) -> bool:
    """In the transaction that deletes the connector; whether there is a source to take down."""
    row = await repository.get(session, connector.tenant, connector.id, lock=True)
    if row is None:
        return False
    row.wanted, row.attempts = REMOVED, 0
    _bump(row)
    return True


async def carry_out(services: Services, connector: Connector) -> Look | None:
    """After the commit: have it carried out now; None when that takes longer than a request should."""
    return await _reconciler(services).look(connector.tenant, connector.id, within=WAIT_SECONDS)


def _bump(row: CaptureSource) -> None:
    now = datetime.now(UTC)
    row.revision += 1
    row.attempts, row.next_look, row.changed_at = 0, now, now


def _reconciler(services: Services) -> Reconciler:
    return services.get(Reconciler)
