"""What travels about the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from lily_api.schemas import Output


class AuditView(Output):
    seq: int = Field(description="Counts from 1 per tenant, without gaps", examples=[42])
    at: datetime
    actor: str = Field(
        description="`key:<id>`, `client:<id>` or `operator`", examples=["key:key_0f3a5c7e9b1d2f4a6c8e0b2d"]
    )
    action: str = Field(examples=["key.create"])
    target: str = Field(examples=["key:key_9b1d2f4a6c8e0b2d0f3a5c7e"])
    request_id: str = Field(examples=["9f86d081884c7d659a2feaa0"])
    outcome: str = Field(examples=["ok"])
    detail: dict[str, Any] = Field(examples=[{"name": "ci", "scopes": ["events:write"]}])
    previous_hash: str
    hash: str


class AuditCheck(Output):
    """Keep `entries` and `head_hash` elsewhere to notice a log cut off at its end, which no chain shows by itself."""

    valid: bool = Field(examples=[True])
    entries: int = Field(examples=[42])
    head_hash: str = Field(description="Hash of the newest row; zeros when there is none")
    broken_at: int | None = Field(description="The first row that does not fit the chain", examples=[None])
