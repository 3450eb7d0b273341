"""Subscriptions, what was told to them, and the state that decides what is news.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_NOW = sa.text("now()")
_TIME = sa.DateTime(timezone=True)

#: Every change of a subscription, whoever makes it, bumps its tenant's generation and wakes the egress workers at commit.
_CHANGED = """
CREATE FUNCTION subscriptions_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed text := coalesce(NEW.tenant, OLD.tenant);
BEGIN
    INSERT INTO subscription_generations AS g (tenant, generation) VALUES (changed, 1)
    ON CONFLICT (tenant) DO UPDATE SET generation = g.generation + 1;
    PERFORM pg_notify('lily_egress', 'subscriptions ' || changed);
    RETURN NULL;
END $$
"""
_TRIGGER = """
CREATE TRIGGER subscriptions_changed AFTER INSERT OR UPDATE OR DELETE ON subscriptions
FOR EACH ROW EXECUTE FUNCTION subscriptions_changed()
"""


def _subscriptions() -> None:
    op.create_table(
        "subscriptions",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("managed", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("config", postgresql.JSONB(), server_default="{}", nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.Column("types", postgresql.JSONB(), server_default="[]", nullable=False),
        sa.Column("filters", postgresql.JSONB(), server_default="[]", nullable=False),
        sa.Column("retry", postgresql.JSONB(), server_default="{}", nullable=False),
        sa.Column("timeout_seconds", sa.Float(), server_default="15", nullable=False),
        sa.Column("status", sa.Text(), server_default="active", nullable=False),
        sa.Column("status_reason", sa.Text(), nullable=True),
        sa.Column("created_at", _TIME, server_default=_NOW, nullable=False),
        sa.Column("updated_at", _TIME, server_default=_NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_subscriptions"),
        sa.CheckConstraint(
            "status IN ('active', 'paused', 'disabled', 'deleted')", name="ck_subscriptions_status"
        ),
    )
    op.create_index("ix_subscriptions_tenant_id", "subscriptions", ["tenant", "id"])
    op.create_index(
        "uq_subscriptions_managed",
        "subscriptions",
        ["tenant"],
        unique=True,
        postgresql_where=sa.text("managed AND status <> 'deleted'"),
    )
    op.create_table(
        "subscription_generations",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="1", nullable=False),
        sa.PrimaryKeyConstraint("tenant", name="pk_subscription_generations"),
    )
    op.execute(_CHANGED)
    op.execute(_TRIGGER)


def _deliveries() -> None:
    op.create_table(
        "notices",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("asset", sa.Uuid(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("transition", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("accepted_at", _TIME, nullable=True),
        sa.Column("noticed_at", _TIME, nullable=True),
        sa.Column("consumed_at", _TIME, nullable=True),
        sa.Column("created_at", _TIME, server_default=_NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notices"),
    )
    op.create_index("ix_notices_tenant_asset", "notices", ["tenant", "asset"])
    op.create_index("ix_notices_event_id", "notices", ["event_id"], postgresql_using="hash")
    op.create_index("ix_notices_created_at", "notices", ["created_at"], postgresql_using="brin")
    op.create_table(
        "deliveries",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("notice_id", sa.Uuid(), nullable=False),
        sa.Column("lane", sa.Uuid(), nullable=False),
        sa.Column("status", sa.Text(), server_default="pending", nullable=False),
        sa.Column("owner", sa.Integer(), nullable=True),
        sa.Column("next_attempt_at", _TIME, nullable=True),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("last_status_code", sa.Integer(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at", _TIME, server_default=_NOW, nullable=False),
        sa.Column("committed_at", _TIME, nullable=True),
        sa.Column("first_sent_at", _TIME, nullable=True),
        sa.Column("finished_at", _TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
        sa.ForeignKeyConstraint(
            ["subscription_id"], ["subscriptions.id"], name="fk_deliveries_subscription_id_subscriptions"
        ),
        sa.ForeignKeyConstraint(
            ["notice_id"], ["notices.id"], name="fk_deliveries_notice_id_notices", ondelete="CASCADE"
        ),
        sa.CheckConstraint(
            "status IN ('pending', 'delivered', 'dead', 'cancelled')", name="ck_deliveries_status"
        ),
    )
    op.create_index(
        "ix_deliveries_lane",
        "deliveries",
        ["lane", "position"],
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index(
        "ix_deliveries_due",
        "deliveries",
        ["subscription_id", "next_attempt_at"],
        postgresql_where=sa.text("status = 'pending' AND next_attempt_at IS NOT NULL"),
    )
    op.create_index("ix_deliveries_subscription", "deliveries", ["subscription_id", "position"])
    op.create_index("ix_deliveries_tenant", "deliveries", ["tenant", "position"])
    op.create_index("ix_deliveries_notice", "deliveries", ["notice_id"])
    op.create_table(
        "delivery_attempts",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("delivery_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("sent_at", _TIME, nullable=False),
        sa.Column("duration_ms", sa.Float(), nullable=False),
        sa.Column("ok", sa.Boolean(), nullable=False),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("response", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("delivery_id", "number", name="pk_delivery_attempts"),
        sa.ForeignKeyConstraint(
            ["delivery_id"],
            ["deliveries.id"],
            name="fk_delivery_attempts_delivery_id_deliveries",
            ondelete="CASCADE",
        ),
    )


def _state() -> None:
    op.create_table(
        "egress_registers",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("asset", sa.Uuid(), nullable=False),
        sa.Column("family", sa.Uuid(), nullable=False),
        sa.Column("register", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=True),
        sa.Column("member", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(collation="C"), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.Column("content", sa.Uuid(), nullable=True),
        sa.Column("updated_at", _TIME, server_default=_NOW, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "asset", "family", "register", name="pk_egress_registers"),
    )
    op.create_table(
        "egress_seen",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("identity", sa.Uuid(), nullable=False),
        sa.Column("seen_at", _TIME, server_default=_NOW, nullable=False),
        sa.PrimaryKeyConstraint("identity", name="pk_egress_seen"),
    )
    op.create_index("ix_egress_seen_seen_at", "egress_seen", ["seen_at"], postgresql_using="brin")


def upgrade() -> None:
    _subscriptions()
    _deliveries()
    _state()


def downgrade() -> None:
    for table in ("egress_seen", "egress_registers", "delivery_attempts", "deliveries", "notices"):
        op.drop_table(table)
    op.drop_table("subscriptions")
    op.execute("DROP FUNCTION subscriptions_changed()")
    op.drop_table("subscription_generations")
