"""The `commands` table."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, Index, Text, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from lily_common.db import Base, TenantOwned


class Command(TenantOwned, Base):
    """One command. `status`: accepted (not yet in Kafka), queued, running, succeeded, failed, cancelled."""

    __tablename__ = "commands"
    __table_args__ = (
        Index("ix_commands_tenant_created_at", "tenant", "created_at", "id"),
        Index("ix_commands_open", "created_at", postgresql_where=text("status = 'accepted'")),
        CheckConstraint(
            "status IN ('accepted', 'queued', 'running', 'succeeded', 'failed', 'cancelled')",
            name="status",
        ),
    )

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    command: Mapped[str]
    args: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default="{}")
    requested_by: Mapped[str]
    status: Mapped[str] = mapped_column(Text, server_default="accepted")
    detail: Mapped[Any | None] = mapped_column(JSONB(none_as_null=True))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now(), onupdate=func.now())
