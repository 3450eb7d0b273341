"""The `erasures` table. What was erased is in it as a keyed digest; the text itself, sealed, only until it is applied."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from sqlalchemy import CheckConstraint, Index, Text, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from lily_common.db import Base, TenantOwned
from lily_common.erasing.stoplist import Entry

ACCEPTED: Final = "accepted"
RUNNING: Final = "running"
APPLIED: Final = "applied"
COMPLETED: Final = "completed"
FAILED: Final = "failed"


class Erasure(TenantOwned, Base):
    """One request. `parts`: what each commit of the lake's part removed, by its name, so that none counts twice;
    `lake`: its last word; `rows`: what went from PostgreSQL; `marks`: where each Kafka partition ended then."""

    __tablename__ = "erasures"
    __table_args__ = (
        Index("ix_erasures_tenant_created_at", "tenant", "created_at", "id"),
        Index("ix_erasures_unfinished", "id", postgresql_where=text("status NOT IN ('completed', 'failed')")),
        CheckConstraint("status IN ('accepted', 'running', 'applied', 'completed', 'failed')", name="status"),
        CheckConstraint("kind IN ('asset', 'person', 'tenant')", name="kind"),
    )

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    kind: Mapped[str]
    digest: Mapped[str]
    descendants: Mapped[bool] = mapped_column(server_default="false")
    form: Mapped[str]
    words: Mapped[int]
    sealed: Mapped[str | None]
    requested_by: Mapped[str]
    status: Mapped[str] = mapped_column(Text, server_default=ACCEPTED)
    published: Mapped[bool] = mapped_column(server_default="false")
    parts: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default="{}")
    lake: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    rows: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default="{}")
    marks: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default="{}")
    gone_from_kafka_by: Mapped[datetime | None]
    error: Mapped[str | None]
    report: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    applied_at: Mapped[datetime | None]
    completed_at: Mapped[datetime | None]
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now(), onupdate=func.now())

    @property
    def entry(self) -> Entry:
        """As the stop-list has it."""
        return Entry.model_validate(
            {
                "id": self.id,
                "tenant": self.tenant,
                "kind": self.kind,
                "digest": self.digest,
                "descendants": self.descendants,
                "form": self.form,
                "words": self.words,
                "open": self.status in (ACCEPTED, RUNNING),
            }
        )

    @property
    def removed(self) -> dict[str, dict[str, int]]:
        """Store -> rows (documents, messages) that went or were changed, and files that were rewritten."""
        stores: dict[str, dict[str, int]] = {}
        for part in self.parts.values():
            held = stores.setdefault(part["store"], {"rows": 0, "files": 0})
            held["rows"] += part.get("rows", 0)
            held["files"] += part.get("files", 0)
        for table, count in self.rows.items():
            stores[f"postgres {table}"] = {"rows": count, "files": 0}
        return dict(sorted(stores.items()))
