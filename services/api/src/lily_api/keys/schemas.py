"""What travels about API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, ConfigDict, Field

from lily_api.auth.principal import Scope
from lily_api.schemas import Input, Name, Output

Scopes = Annotated[
    list[Scope], Field(min_length=1, max_length=len(Scope), examples=[["events:write", "assets:read"]])
]
MAX_GRACE_SECONDS = 30 * 24 * 3600


class KeyCreate(Input):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "ingest from CI", "scopes": ["events:write", "assets:read"]}]
        }
    )

    name: Name = Field(examples=["ingest from CI"])
    scopes: Scopes
    expires_at: AwareDatetime | None = Field(
        None, description="When the key ends by itself; never when missing"
    )


class KeyRotate(Input):
    model_config = ConfigDict(json_schema_extra={"examples": [{"grace_seconds": 3600}]})

    grace_seconds: int = Field(
        0, ge=0, le=MAX_GRACE_SECONDS, description="How long the old key stays valid beside the new one"
    )
    expires_at: AwareDatetime | None = Field(None, description="End of the new key; never when missing")


class KeyView(Output):
    id: str = Field(examples=["key_0f3a5c7e9b1d2f4a6c8e0b2d"])
    name: str = Field(examples=["ingest from CI"])
    prefix: str = Field(description="Recognises the key: `lily_<prefix>_…`", examples=["k3v9x0ab"])
    scopes: list[str] = Field(examples=[["events:write", "assets:read"]])
    created_by: str = Field(examples=["operator"])
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None = Field(description="To within some seconds")
    rotated_from: str | None = Field(description="The key that this one replaced")


class KeyCreated(KeyView):
    key: str = Field(
        description="The key itself: shown this once, kept nowhere",
        examples=["lily_k3v9x0ab_5Yq0pGk2nJw8Zt4Rc1Xv7Lh3Md6Sb9Fa0Ue2Io5Py8"],
    )
