"""`/v1/erasures`."""

from __future__ import annotations

from fastapi import APIRouter
from jose import jwt

from lily_api import paging
from lily_api.auth.permissions import ErasuresRead, ErasuresWrite
from lily_api.erasures import service
from lily_api.erasures.schemas import ErasureCreate, ErasureReport, ErasureView
from lily_api.schemas import ObjectId, Page
from lily_api.services import ServicesDep
from lily_common.errors import ConflictError

router = APIRouter(prefix="/v1/erasures", tags=["erasures"])


@router.post("", status_code=202, summary="Erase an asset, a person or a tenant")
async def create_erasure(principal: ErasuresWrite, lily: ServicesDep, body: ErasureCreate) -> ErasureView:
    """Cannot be taken back. From the answer on, what arrives of it is refused with the problem `erased`.

    `applied`: gone from lake, mirror, PostgreSQL and dead letters. `completed`: gone from Kafka too.
    """
    return ErasureView.model_validate(await service.create(lily, principal, body))


@router.get("", summary="List erasures")
async def list_erasures(
    principal: ErasuresRead, lily: ServicesDep, limit: paging.Limit = 100, cursor: paging.Cursor = None
) -> Page[ErasureView]:
    """Newest first."""
    rows = await service.list_page(lily, principal.tenant, paging.decode_time_id(cursor), limit)
    return Page[ErasureView](
        items=[ErasureView.model_validate(row) for row in rows],
        next_cursor=paging.encode_time_id(rows[-1].created_at, rows[-1].id) if len(rows) == limit else None,
    )


@router.get("/{erasure_id}", summary="Read an erasure")
async def get_erasure(principal: ErasuresRead, lily: ServicesDep, erasure_id: ObjectId) -> ErasureView:
    return ErasureView.model_validate(await service.get(lily, principal.tenant, erasure_id))


@router.get(
    "/{erasure_id}/report",
    summary="Read an erasure's signed report",
    responses={409: {"description": "It is not applied yet"}},
)
async def get_erasure_report(
    principal: ErasuresRead, lily: ServicesDep, erasure_id: ObjectId
) -> ErasureReport:
    """There from `applied` on; signed anew at `completed`."""
    row = await service.get(lily, principal.tenant, erasure_id)
    if row.report is None:
        raise ConflictError("the erasure is not applied yet", code="not-applied")
    return ErasureReport(jws=row.report, claims=_claims(row.report))


def _claims(report: str) -> dict[str, object]:
    """What a report says, for readers who do not check its signature themselves."""
    claims: dict[str, object] = jwt.get_unverified_claims(report)
    return claims
