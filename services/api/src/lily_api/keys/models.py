"""The table of API keys."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Text, func
from sqlalchemy.orm import Mapped, mapped_column

from lily_common.db import Base, TenantOwned


class ApiKey(TenantOwned, Base):
    """One key. The secret itself is never here: `prefix` finds the row, `digest` (SHA-256, hex) proves the key."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant: Mapped[str] = mapped_column(Text, ForeignKey("tenants.id"), index=True)
    name: Mapped[str]
    prefix: Mapped[str] = mapped_column(unique=True)
    digest: Mapped[str]
    scopes: Mapped[list[str]]
    created_by: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    rotated_from: Mapped[str | None]
