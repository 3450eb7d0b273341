"""What travels about tenants."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from lily_api.schemas import Input, Name, Output, TenantId

#: Name of an asset field that must not be mirrored to MongoDB.
FieldName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,99}$")]
SensitiveFields = Annotated[list[FieldName], Field(max_length=200, examples=[["sample_values", "sql"]])]
DEFAULT_SENSITIVE_FIELDS = ("sample_values", "sql")


class TenantCreate(Input):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"id": "acme", "name": "Acme Ltd", "sensitive_fields": ["sample_values", "sql"]}]
        }
    )

    id: Annotated[
        TenantId, Field(description="Slug, the tenant's name in every key and topic", examples=["acme"])
    ]
    name: Annotated[
        Name | None, Field(description="Name for people; the id when missing", examples=["Acme Ltd"])
    ] = None
    sensitive_fields: SensitiveFields = Field(
        default_factory=lambda: list(DEFAULT_SENSITIVE_FIELDS),
        description="Asset fields that are kept in the lake but never mirrored to MongoDB",
    )


class TenantPatch(Input):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"sensitive_fields": ["sample_values", "sql", "owner_email"]}]}
    )

    name: Name | None = None
    sensitive_fields: SensitiveFields | None = None


class TenantView(Output):
    id: str = Field(examples=["acme"])
    name: str = Field(examples=["Acme Ltd"])
    sensitive_fields: list[str] = Field(examples=[["sample_values", "sql"]])
    created_at: datetime
    updated_at: datetime
