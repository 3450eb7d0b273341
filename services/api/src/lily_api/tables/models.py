"""The `gold_tables` and `table_refreshes` tables."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, Index, Text, func, text
from sqlalchemy.orm import Mapped, mapped_column

from lily_common.db import Base, TenantOwned


class GoldTable(TenantOwned, Base):
    """One declaration. `published` is false from a change until Kafka has it; a deleted one goes when it is true."""

    __tablename__ = "gold_tables"
    __table_args__ = (
        Index("ix_gold_tables_unpublished", "updated_at", postgresql_where=text("NOT published")),
        CheckConstraint("status IN ('active', 'deleted')", name="status"),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    #: JSON and not JSONB, which forgets in which order columns were declared.
    declaration: Mapped[dict[str, Any]] = mapped_column(JSON)
    status: Mapped[str] = mapped_column(Text, server_default="active")
    published: Mapped[bool] = mapped_column(server_default="false")
    created_by: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())


class TableRefresh(TenantOwned, Base):
    """How a table's last refresh went. The built-in tables' are under the tenant `*`."""

    __tablename__ = "table_refreshes"
    __table_args__ = (CheckConstraint("status IN ('succeeded', 'failed')", name="status"),)

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    table: Mapped[str] = mapped_column(Text, primary_key=True)
    status: Mapped[str]
    at: Mapped[datetime]
    detail: Mapped[dict[str, Any]]
