"""The `declarations` table."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, Index, Text, func, text
from sqlalchemy.orm import Mapped, mapped_column

from lily_common.db import Base, TenantOwned


class Declaration(TenantOwned, Base):
    """One declaration. `published` is false from a change until Kafka has it; a deleted one goes when it is true.

    `version` counts the changes of its name, also over a deletion.
    """

    __tablename__ = "declarations"
    __table_args__ = (
        Index("ix_declarations_unpublished", "updated_at", postgresql_where=text("NOT published")),
        CheckConstraint("status IN ('active', 'deleted')", name="status"),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    kind: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    body: Mapped[dict[str, Any]] = mapped_column(JSON)
    version: Mapped[int]
    status: Mapped[str] = mapped_column(Text, server_default="active")
    published: Mapped[bool] = mapped_column(server_default="false")
    created_by: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())
