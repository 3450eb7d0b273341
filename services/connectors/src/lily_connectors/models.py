"""The `connectors` table: what a tenant has connected, with its secrets encrypted."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Text, UniqueConstraint, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from lily_common.db import Base, TenantOwned


class Connector(TenantOwned, Base):
    """One connector of a tenant. `secrets` is one sealed JSON document (see `lily_connectors.secrets`)."""

    __tablename__ = "connectors"
    __table_args__ = (UniqueConstraint("tenant", "name"),)

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    kind: Mapped[str]
    name: Mapped[str]
    direction: Mapped[str]
    config: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default="{}")
    secrets: Mapped[str | None]
    status: Mapped[str] = mapped_column(Text, server_default="active")
    created_by: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now(), onupdate=func.now())
