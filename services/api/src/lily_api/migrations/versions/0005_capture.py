"""Sources of change data.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_NOW = sa.text("now()")
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "capture_sources",
        sa.Column("connector_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("config", postgresql.JSONB(), nullable=False),
        sa.Column("secrets", sa.Text(), nullable=True),
        sa.Column("wanted", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("settled", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("next_look", _TIME, server_default=_NOW, nullable=False),
        sa.Column("changed_at", _TIME, server_default=_NOW, nullable=False),
        sa.PrimaryKeyConstraint("connector_id", name="pk_capture_sources"),
        sa.UniqueConstraint("tenant", "source", name="uq_capture_sources_tenant_source"),
        sa.CheckConstraint("wanted IN ('running', 'paused', 'removed')", name="ck_capture_sources_wanted"),
    )
    op.create_index("ix_capture_sources_tenant", "capture_sources", ["tenant"])
    op.create_index("ix_capture_sources_next_look", "capture_sources", ["next_look"])


def downgrade() -> None:
    op.drop_table("capture_sources")
