"""Erasures.

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_NOW = sa.text("now()")
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "erasures",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("descendants", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("form", sa.Text(), nullable=False),
        sa.Column("words", sa.Integer(), nullable=False),
        sa.Column("sealed", sa.Text()),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default="accepted", nullable=False),
        sa.Column("published", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("parts", postgresql.JSONB(), server_default="{}", nullable=False),
        sa.Column("lake", postgresql.JSONB()),
        sa.Column("rows", postgresql.JSONB(), server_default="{}", nullable=False),
        sa.Column("marks", postgresql.JSONB(), server_default="{}", nullable=False),
        sa.Column("gone_from_kafka_by", _TIME),
        sa.Column("error", sa.Text()),
        sa.Column("report", sa.Text()),
        sa.Column("created_at", _TIME, server_default=_NOW, nullable=False),
        sa.Column("applied_at", _TIME),
        sa.Column("completed_at", _TIME),
        sa.Column("updated_at", _TIME, server_default=_NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_erasures"),
        sa.CheckConstraint(
            "status IN ('accepted', 'running', 'applied', 'completed', 'failed')", name="ck_erasures_status"
        ),
        sa.CheckConstraint("kind IN ('asset', 'person', 'tenant')", name="ck_erasures_kind"),
    )
    op.create_index("ix_erasures_tenant", "erasures", ["tenant"])
    op.create_index("ix_erasures_tenant_created_at", "erasures", ["tenant", "created_at", "id"])
    op.create_index(
        "ix_erasures_unfinished",
        "erasures",
        ["id"],
        postgresql_where=sa.text("status NOT IN ('completed', 'failed')"),
    )


def downgrade() -> None:
    op.drop_table("erasures")
