"""What travels about erasures."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from lily_api.schemas import Input, Output, TenantId, Text, example


class ErasureStatus(StrEnum):
    ACCEPTED = "accepted"
    RUNNING = "running"
    APPLIED = "applied"
    COMPLETED = "completed"
    FAILED = "failed"


class ErasureCreate(Input):
    model_config = example({"person": "jane.doe@example.com"})

    asset: Annotated[Text, Field(min_length=1, max_length=2048)] | None = Field(
        None, description="Qualified name of an asset: all that is known of it goes"
    )
    descendants: bool = Field(False, description="With an asset: what is below it in its name goes too")
    person: Annotated[Text, Field(min_length=3, max_length=400)] | None = Field(
        None,
        description="A person's identifier (address, name, number): goes wherever it stands as whole words in a value",
    )
    tenant: TenantId | None = Field(
        None,
        description="The whole tenant, by the operator or by its own administrator; `confirm` repeats it",
    )
    confirm: Text | None = Field(None, max_length=100, description="With a tenant: its id once more")

    @model_validator(mode="after")
    def _one(self) -> ErasureCreate:
        given = [name for name in ("asset", "person", "tenant") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("exactly one of asset, person and tenant has to be given")
        if self.descendants and self.asset is None:
            raise ValueError("descendants goes with asset")
        if self.tenant is not None and self.confirm != self.tenant:
            raise ValueError("confirm has to repeat the tenant's id: all that it has will be gone")
        return self


class Removed(Output):
    rows: int = Field(description="Rows, documents or messages that went or in which a text was replaced")
    files: int = Field(description="Files that were rewritten")


_VIEW = {
    "id": "ers_5f0b9d3c7a1e4d2288aa10ce",
    "kind": "person",
    "digest": "0f3a5c7e9b1d2f4a6c8e0b2d4f6a8c0e",
    "descendants": False,
    "status": "applied",
    "requested_by": "key:key_91d0c2aa34b85f6e7d1c0b2f",
    "removed": {"lake bronze/events": {"rows": 3, "files": 2}, "postgres notices": {"rows": 1, "files": 0}},
    "gone_from_kafka_by": "2026-02-09T10:06:00Z",
    "error": None,
    "created_at": "2026-01-02T10:00:00Z",
    "applied_at": "2026-01-02T10:02:10Z",
    "completed_at": None,
}


class ErasureView(Output):
    model_config = example(_VIEW)

    id: str
    kind: Literal["asset", "person", "tenant"]
    digest: str = Field(description="Keyed digest of what is erased; the text itself is kept nowhere")
    descendants: bool
    status: ErasureStatus
    requested_by: str
    removed: dict[str, Removed] = Field(description="By store")
    gone_from_kafka_by: datetime | None = Field(
        description="When the last topic's retention has passed; null before `applied`, or when a topic keeps for ever"
    )
    error: str | None = Field(description="Why it does not get on; it is tried again")
    created_at: datetime
    applied_at: datetime | None = Field(description="Gone from lake, mirror, PostgreSQL and dead letters")
    completed_at: datetime | None = Field(description="Gone from Kafka as well")


class ErasureReport(Output):
    model_config = example({"jws": "eyJhbGciOiJSUzI1NiIs…", "claims": {"erasure": _VIEW}})

    jws: str = Field(
        description="The claims, signed with a key of /.well-known/jwks.json (compact JWS, RS256)"
    )
    claims: dict[str, Any]
