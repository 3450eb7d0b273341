"""Egress's tables in PostgreSQL.

`subscriptions` (what a tenant wants to hear) · `subscription_generations` (bumped by a trigger at every change, read in
each batch's transaction) · `notices` (what was news and wanted: the body once for all its deliveries) · `deliveries` (one
per subscription and notice) · `delivery_attempts` · `egress_registers` (the state that decides what is news) ·
`egress_seen` (event identities of the last days).

A pending delivery is in one of three places: `owner` set: in that worker's memory; `owner` null and `next_attempt_at` set:
waiting for its time; both null: behind an earlier one of its lane, or for its subscription to be resumed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Text,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from lily_common.db import Base, TenantOwned

#: Channel of LISTEN/NOTIFY. Payloads: `subscriptions <tenant>`, `deliveries`, `retry <delivery id>`.
NOTIFY_CHANNEL: Final = "lily_egress"

ACTIVE: Final = "active"
PAUSED: Final = "paused"
DISABLED: Final = "disabled"
DELETED: Final = "deleted"

PENDING: Final = "pending"
DELIVERED: Final = "delivered"
DEAD: Final = "dead"
CANCELLED: Final = "cancelled"


class Subscription(TenantOwned, Base):
    """What one tenant wants told, and where. `config` is shown (secrets masked), `sealed` holds it whole."""

    __tablename__ = "subscriptions"
    __table_args__ = (
        CheckConstraint("status IN ('active', 'paused', 'disabled', 'deleted')", name="status"),
        Index("ix_subscriptions_tenant_id", "tenant", "id"),
        Index(
            "uq_subscriptions_managed",
            "tenant",
            unique=True,
            postgresql_where=text("managed AND status <> 'deleted'"),
        ),
    )

    tenant: Mapped[str] = mapped_column(Text)
    id: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str]
    kind: Mapped[str]
    managed: Mapped[bool] = mapped_column(Boolean, server_default="false")
    config: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default="{}")
    sealed: Mapped[str]
    types: Mapped[list[str]] = mapped_column(JSONB, server_default="[]")
    filters: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default="[]")
    retry: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default="{}")
    timeout_seconds: Mapped[float] = mapped_column(Float, server_default="15")
    status: Mapped[str] = mapped_column(Text, server_default=ACTIVE)
    status_reason: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now(), onupdate=func.now())


class SubscriptionGeneration(TenantOwned, Base):
    """How often a tenant's subscriptions changed: tells a worker, within its transaction, that its copy is old."""

    __tablename__ = "subscription_generations"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    generation: Mapped[int] = mapped_column(BigInteger, server_default="1")


class NoticeRow(TenantOwned, Base):
    """One thing told. `id` is the digest of the event's identity."""

    __tablename__ = "notices"
    __table_args__ = (
        Index("ix_notices_tenant_asset", "tenant", "asset"),
        Index("ix_notices_event_id", "event_id", postgresql_using="hash"),
        Index("ix_notices_created_at", "created_at", postgresql_using="brin"),
    )

    tenant: Mapped[str] = mapped_column(Text)
    id: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    asset: Mapped[UUID] = mapped_column(Uuid)
    source: Mapped[str]
    event_id: Mapped[str]
    type: Mapped[str]
    subject: Mapped[str]
    transition: Mapped[str]
    body: Mapped[str]
    accepted_at: Mapped[datetime | None]
    noticed_at: Mapped[datetime | None]
    consumed_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Delivery(TenantOwned, Base):
    """One notice on its way to one subscription; `id` is also the `webhook-id`."""

    __tablename__ = "deliveries"
    __table_args__ = (
        CheckConstraint("status IN ('pending', 'delivered', 'dead', 'cancelled')", name="status"),
        Index("ix_deliveries_lane", "lane", "position", postgresql_where=text("status = 'pending'")),
        *(
            Index(
                name,
                "subscription_id",
                "next_attempt_at",
                postgresql_where=text(f"status = 'pending' AND next_attempt_at IS NOT NULL AND {whose}"),
            )
            for name, whose in (
                ("ix_deliveries_due", "replay_id IS NULL"),
                ("ix_deliveries_due_replayed", "replay_id IS NOT NULL"),
            )
        ),
        Index(
            "ix_deliveries_replay",
            "tenant",
            "replay_id",
            "position",
            postgresql_where=text("replay_id IS NOT NULL"),
        ),
        Index("ix_deliveries_subscription", "subscription_id", "position"),
        Index("ix_deliveries_tenant", "tenant", "position"),
        Index("ix_deliveries_notice", "notice_id"),
    )

    tenant: Mapped[str] = mapped_column(Text)
    id: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger, Identity(always=True))
    subscription_id: Mapped[str] = mapped_column(ForeignKey("subscriptions.id"))
    notice_id: Mapped[UUID] = mapped_column(ForeignKey("notices.id", ondelete="CASCADE"))
    lane: Mapped[UUID] = mapped_column(Uuid)
    #: The command that replays it; none: live.
    replay_id: Mapped[str | None]
    status: Mapped[str] = mapped_column(Text, server_default=PENDING)
    owner: Mapped[int | None]
    next_attempt_at: Mapped[datetime | None]
    attempts: Mapped[int] = mapped_column(Integer, server_default="0")
    #: Attempts since the delivery was made or last replayed: what the retry policy counts.
    tries: Mapped[int] = mapped_column(Integer, server_default="0")
    last_status_code: Mapped[int | None]
    last_error: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    committed_at: Mapped[datetime | None]
    first_sent_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class DeliveryAttempt(TenantOwned, Base):
    """One attempt of a delivery: when, how long, what came back."""

    __tablename__ = "delivery_attempts"

    tenant: Mapped[str] = mapped_column(Text)
    delivery_id: Mapped[UUID] = mapped_column(
        ForeignKey("deliveries.id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    sent_at: Mapped[datetime]
    duration_ms: Mapped[float] = mapped_column(Float)
    ok: Mapped[bool]
    status_code: Mapped[int | None]
    error: Mapped[str | None]
    response: Mapped[str] = mapped_column(Text, server_default="")


class EgressRegister(TenantOwned, Base):
    """A state register as far as egress needs it. `version` sorts by bytes: its collation must be "C"."""

    __tablename__ = "egress_registers"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    asset: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    family: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    register: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    kind: Mapped[str]
    tag: Mapped[str | None]
    member: Mapped[str]
    version: Mapped[str] = mapped_column(Text(collation="C"))
    live: Mapped[bool]
    content: Mapped[UUID | None]
    #: `folded_key` of the asset; null in rows of before there was one.
    folded: Mapped[UUID | None]
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())


class EgressSeen(TenantOwned, Base):
    """Event identities that egress has judged: a repeat is dropped even when it carries another time."""

    __tablename__ = "egress_seen"
    __table_args__ = (Index("ix_egress_seen_seen_at", "seen_at", postgresql_using="brin"),)

    tenant: Mapped[str] = mapped_column(Text)
    identity: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now())
