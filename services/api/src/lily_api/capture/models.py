"""The `capture_sources` table: what Kafka Connect is to be made to agree with."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Index, Text, UniqueConstraint, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from lily_common.db import Base, TenantOwned

RUNNING, PAUSED, REMOVED = "running", "paused", "removed"


class CaptureSource(TenantOwned, Base):
    """One source. It outlives its connector: it goes when nothing of the source is left anywhere.

    `revision` grows with every change of what is wanted, `settled` is the last one that was carried out whole. `config`
    (without the password) and `secrets` are the connector's own; they are kept here to take down what it leaves behind.
    """

    __tablename__ = "capture_sources"
    __table_args__ = (
        UniqueConstraint("tenant", "source"),
        CheckConstraint("wanted IN ('running', 'paused', 'removed')", name="wanted"),
        Index("ix_capture_sources_next_look", "next_look"),
    )

    connector_id: Mapped[str] = mapped_column(Text, primary_key=True)
    kind: Mapped[str]
    source: Mapped[str]
    config: Mapped[dict[str, Any]] = mapped_column(JSONB)
    secrets: Mapped[str | None]
    wanted: Mapped[str]
    revision: Mapped[int] = mapped_column(BigInteger)
    settled: Mapped[int] = mapped_column(BigInteger, server_default="0")
    problem: Mapped[str | None]
    attempts: Mapped[int] = mapped_column(server_default="0")
    next_look: Mapped[datetime] = mapped_column(server_default=func.now())
    changed_at: Mapped[datetime] = mapped_column(server_default=func.now())
