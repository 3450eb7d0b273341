"""`/v1/me`."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from lily_api.auth.permissions import Known
from lily_api.schemas import Output

router = APIRouter(prefix="/v1/me", tags=["keys"])


class Me(Output):
    tenant: str | None = Field(description="Null for the operator that names no tenant", examples=["acme"])
    subject: str = Field(examples=["key:key_0f3a5c7e9b1d2f4a6c8e0b2d"])
    scopes: list[str] = Field(examples=[["assets:read", "events:write"]])
    is_operator: bool = Field(examples=[False])


@router.get("", summary="Who am I")
async def me(principal: Known) -> Me:
    """What the credential of this request is good for."""
    return Me(
        tenant=principal.tenant or None,
        subject=principal.subject,
        scopes=sorted(principal.scopes),
        is_operator=principal.is_operator,
    )
