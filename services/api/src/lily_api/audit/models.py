"""The audit table. Triggers of the first migration forbid UPDATE, DELETE and TRUNCATE on it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Text
from sqlalchemy.orm import Mapped, mapped_column

from lily_common.db import Base, TenantOwned


class AuditEntry(TenantOwned, Base):
    """One write. `seq` counts from 1 per tenant without gaps; `hash` covers the row and `previous_hash`."""

    __tablename__ = "audit_log"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    at: Mapped[datetime]
    actor: Mapped[str]
    action: Mapped[str]
    target: Mapped[str]
    request_id: Mapped[str]
    outcome: Mapped[str]
    # json, not jsonb: the text stays as it was hashed.
    detail: Mapped[dict[str, Any]] = mapped_column(JSON)
    previous_hash: Mapped[str]
    hash: Mapped[str]
