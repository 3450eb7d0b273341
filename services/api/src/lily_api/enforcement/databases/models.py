"""The `enforced_databases` table: which databases are to be kept, and how the last round went."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Text, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from lily_common.db import Base, TenantOwned

KEPT, PAUSED, RESTORED = "kept", "paused", "restored"


class EnforcedDatabase(TenantOwned, Base):
    """One database. It outlives its connector until every reader has back what it had.

    `revision` grows with every change of what is wanted, `settled` is the last one that a round carried out. `report` is
    what the last round that found something told: `problems`, and the latest `drift`.
    """

    __tablename__ = "enforced_databases"
    __table_args__ = (CheckConstraint("wanted IN ('kept', 'paused', 'restored')", name="wanted"),)

    connector_id: Mapped[str] = mapped_column(Text, primary_key=True)
    kind: Mapped[str]
    config: Mapped[dict[str, Any]] = mapped_column(JSONB)
    secrets: Mapped[str | None]
    wanted: Mapped[str]
    revision: Mapped[int] = mapped_column(BigInteger)
    settled: Mapped[int] = mapped_column(BigInteger, server_default="0")
    problem: Mapped[str | None]
    report: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default="{}")
    looked_at: Mapped[datetime | None]
    changed_at: Mapped[datetime] = mapped_column(server_default=func.now())
