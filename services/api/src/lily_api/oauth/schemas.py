"""What travels about OAuth clients and tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from lily_api.keys.schemas import MAX_GRACE_SECONDS, Scopes
from lily_api.schemas import Input, Name, Output


class ClientCreate(Input):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "kafka consumer", "scopes": ["assets:read", "stream:read"]}]}
    )

    name: Name = Field(examples=["kafka consumer"])
    scopes: Scopes


class ClientPatch(Input):
    model_config = ConfigDict(json_schema_extra={"examples": [{"scopes": ["assets:read"]}]})

    name: Name | None = None
    scopes: Scopes | None = None


class SecretRotate(Input):
    model_config = ConfigDict(json_schema_extra={"examples": [{"grace_seconds": 3600}]})

    grace_seconds: int = Field(
        0, ge=0, le=MAX_GRACE_SECONDS, description="How long the old secret stays valid beside the new one"
    )


class ClientView(Output):
    id: str = Field(description="The client_id", examples=["client_0f3a5c7e9b1d2f4a6c8e0b2d"])
    name: str = Field(examples=["kafka consumer"])
    secret_prefix: str = Field(examples=["lcs_5Yq0"])
    previous_until: datetime | None = Field(description="Until when the secret before is valid too")
    scopes: list[str] = Field(examples=[["assets:read", "stream:read"]])
    created_by: str = Field(examples=["operator"])
    created_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None = Field(description="To within some seconds")


class ClientCreated(ClientView):
    client_secret: str = Field(
        description="The secret itself: shown this once, kept nowhere",
        examples=["lcs_5Yq0pGk2nJw8Zt4Rc1Xv7Lh3Md6Sb9Fa0Ue2Io5Py8"],
    )


class TokenView(BaseModel):
    """RFC 6749, section 5.1."""

    access_token: str = Field(description="A JWT, RS256")
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105
    expires_in: int = Field(description="Seconds", examples=[900])
    scope: str = Field(examples=["assets:read stream:read"])


class OAuthProblem(BaseModel):
    """RFC 6749, section 5.2."""

    error: str = Field(examples=["invalid_client"])
    error_description: str = Field(examples=["unknown client or wrong secret"])


class KeySet(BaseModel):
    """RFC 7517."""

    keys: list[dict[str, Any]]
