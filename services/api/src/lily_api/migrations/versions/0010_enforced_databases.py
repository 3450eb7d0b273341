"""Databases that are kept in line with policies.

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "enforced_databases",
        sa.Column("connector_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("config", JSONB(), nullable=False),
        sa.Column("secrets", sa.Text(), nullable=True),
        sa.Column("wanted", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("settled", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("report", JSONB(), server_default="{}", nullable=False),
        sa.Column("looked_at", _TIME, nullable=True),
        sa.Column("changed_at", _TIME, server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("connector_id", name="pk_enforced_databases"),
        sa.CheckConstraint("wanted IN ('kept', 'paused', 'restored')", name="ck_enforced_databases_wanted"),
    )
    op.create_index("ix_enforced_databases_tenant", "enforced_databases", ["tenant"])


def downgrade() -> None:
    op.drop_table("enforced_databases")
