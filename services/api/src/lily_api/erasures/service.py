"""The life of an erasure: a row, then the stop-list's message; the lake's part; PostgreSQL; Kafka's retention."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lily_api import audit
from lily_api.auth import credentials
from lily_api.auth.principal import Principal, Scope
from lily_api.erasures import databases, repository, retention
from lily_api.erasures.models import ACCEPTED, APPLIED, COMPLETED, FAILED, RUNNING, Erasure
from lily_api.erasures.schemas import ErasureCreate, ErasureView
from lily_api.erasures.stopping import Erased
from lily_api.services import Services
from lily_common.erasing.digests import DigestKey, Identifier, identifier
from lily_common.erasing.stoplist import Matcher, encode
from lily_common.errors import ConflictError, FieldError, ForbiddenError, InvalidInputError, NotFoundError
from lily_common.events import ERASURES_TOPIC
from lily_common.kafka import Record
from lily_common.names import check_qualified_name

REPORT_TYPE = "lily-erasure+jws"


async def create(services: Services, principal: Principal, wanted: ErasureCreate) -> Erasure:
    """Returns when the stop-list's message is acknowledged; from then on what arrives of it is stopped.

    Raises ForbiddenError for a tenant that is not the caller's to erase, ConflictError while the same is under way,
    UnavailableError when Kafka does not acknowledge: it is then begun later all the same.
    """
    tenant = principal.tenant
    if wanted.tenant is not None and (wanted.tenant != tenant or not principal.allows(Scope.ADMIN)):
        raise ForbiddenError("only the operator or the tenant's own administrator may erase a tenant")
    erased = services.get(Erased)
    subject, fields = _subject(erased.key, tenant, wanted)
    async with services.db.begin() as session:
        if await repository.is_open(session, tenant, fields["digest"]):
            raise ConflictError("this erasure is under way already", code="under-way")
        erasure_id = credentials.new_id("ers")
        sealed = services.secrets.seal(subject, tenant=tenant, purpose=_purpose(erasure_id))
        row = Erasure(id=erasure_id, tenant=tenant, requested_by=principal.subject, sealed=sealed, **fields)
        session.add(row)
        await session.flush()
        # The log of writes cannot be rewritten: it gets the digest alone.
        detail = {name: fields[name] for name in ("kind", "digest", "descendants")}
        await audit.record(session, principal, "erasure.create", f"erasure:{erasure_id}", detail)
    await erased.refresh(services)
    await publish(services, tenant, erasure_id)
    return await get(services, tenant, erasure_id)


async def get(services: Services, tenant: str, erasure_id: str) -> Erasure:
    async with services.db() as session:
        found = await repository.get(session, tenant, erasure_id)
    if found is None:
        raise NotFoundError("there is no such erasure", code="unknown-erasure")
    return found


async def list_page(
    services: Services, tenant: str, after: tuple[datetime, str] | None, limit: int
) -> list[Erasure]:
    async with services.db() as session:
        return await repository.list_page(session, tenant, after, limit)


async def publish(services: Services, tenant: str, erasure_id: str) -> None:
    """Send the entry as it is now. The row is locked: none overtakes a newer one."""
    async with services.db.begin() as session:
        row = await repository.get(session, tenant, erasure_id, lock=True)
        if row is None:
            return
        record = Record(ERASURES_TOPIC, f"{tenant}|{erasure_id}".encode(), encode(row.entry))
        await services.producer.send([record])
        row.published = True


async def take(services: Services, tenant: str, erasure_id: str, status: str, detail: Any) -> None:
    """Write what the lake job says; a message that comes again changes nothing."""
    detail = detail if isinstance(detail, dict) else {}
    async with services.db.begin() as session:
        row = await repository.get(session, tenant, erasure_id, lock=True)
        if row is None or row.status not in (ACCEPTED, RUNNING):
            return
        row.status = RUNNING
        row.error = str(detail["error"])[:500] if "error" in detail else None
        if "part" in detail and "store" in detail:
            held = {name: detail[name] for name in ("store", "rows", "files") if name in detail}
            row.parts = row.parts | {str(detail["part"]): held}
        if status == "succeeded":
            row.lake = detail
        elif status == "failed":
            row.status, row.published = FAILED, False


async def advance(services: Services, tenant: str, erasure_id: str) -> None:
    """The next step of this erasure, if its time has come. Every step may be done twice."""
    row = await get(services, tenant, erasure_id)
    if not row.published:
        await publish(services, tenant, erasure_id)
    if row.status == RUNNING and row.lake is not None:
        await _apply(services, row)
    elif row.status == APPLIED and await retention.passed(services.settings, row):
        await _complete(services, row)


async def _apply(services: Services, row: Erasure) -> None:
    subject = services.secrets.open(row.sealed or "", tenant=row.tenant, purpose=_purpose(row.id))
    matcher = Matcher(services.get(Erased).key, row.tenant, [row.entry])
    counts = await databases.erase(services, matcher, subject if row.kind == "asset" else None)
    marks, gone_by = await retention.marks(services.settings, row.tenant)
    async with services.db.begin() as session:
        held = await repository.get(session, row.tenant, row.id, lock=True)
        if held is None or held.status != RUNNING:
            return
        held.rows = {name: held.rows.get(name, 0) + count for name, count in counts.items()}
        held.marks, held.gone_from_kafka_by = marks, gone_by
        held.status, held.applied_at, held.sealed, held.error = APPLIED, datetime.now(UTC), None, None
        held.published = False
        held.report = signed(services, held)
    await publish(services, row.tenant, row.id)


async def _complete(services: Services, row: Erasure) -> None:
    async with services.db.begin() as session:
        held = await repository.get(session, row.tenant, row.id, lock=True)
        if held is None or held.status != APPLIED:
            return
        held.status, held.completed_at = COMPLETED, datetime.now(UTC)
        held.report = signed(services, held)


def signed(services: Services, row: Erasure) -> str:
    """The report as it stands, signed with the API's own key."""
    view = ErasureView.model_validate(row).model_dump(mode="json")
    claims = {
        "iss": services.settings.jwt_issuer,
        "iat": int(datetime.now(UTC).timestamp()),
        "tenant": row.tenant,
        "erasure": view,
        "lake": row.lake,
    }
    return services.signer.sign(claims, REPORT_TYPE)


def _subject(key: DigestKey, tenant: str, wanted: ErasureCreate) -> tuple[str, dict[str, Any]]:
    """(the text itself, the row's fields). Raises InvalidInputError."""
    fields: dict[str, Any] = {"form": "words", "words": 1, "descendants": wanted.descendants}
    if wanted.asset is not None:
        if (wrong := check_qualified_name(wanted.asset)) is not None:
            raise InvalidInputError(f"asset {wrong}", [FieldError("body.asset", wrong)])
        return wanted.asset, fields | {"kind": "asset", "digest": key.asset(tenant, wanted.asset)}
    if wanted.person is not None:
        who = _identifier(wanted.person)
        digest = key.person(tenant, who.form, who.token)
        return who.token, fields | {"kind": "person", "digest": digest, "form": who.form, "words": who.words}
    return tenant, fields | {"kind": "tenant", "digest": key.tenant(tenant)}


def _identifier(text: str) -> Identifier:
    try:
        return identifier(text)
    except ValueError as wrong:
        raise InvalidInputError(f"person: {wrong}", [FieldError("body.person", str(wrong))]) from None


def _purpose(erasure_id: str) -> str:
    return f"erasure:{erasure_id}"
