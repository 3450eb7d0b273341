"""The table of OAuth clients."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Text, func
from sqlalchemy.orm import Mapped, mapped_column

from lily_common.db import Base, TenantOwned


class OAuthClient(TenantOwned, Base):
    """One client; `id` is the client_id and its tokens' `sub`. After a rotation the previous secret lives on for a while."""

    __tablename__ = "oauth_clients"

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant: Mapped[str] = mapped_column(Text, ForeignKey("tenants.id"), index=True)
    name: Mapped[str]
    secret_prefix: Mapped[str]
    secret_digest: Mapped[str]
    previous_digest: Mapped[str | None]
    previous_until: Mapped[datetime | None]
    scopes: Mapped[list[str]]
    created_by: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
