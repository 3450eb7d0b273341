"""Incremental tables: declarations and how their refreshes went.

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_NOW = sa.text("now()")
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "gold_tables",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("declaration", sa.JSON(), nullable=False),
        sa.Column("status", sa.Text(), server_default="active", nullable=False),
        sa.Column("published", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", _TIME, server_default=_NOW, nullable=False),
        sa.Column("updated_at", _TIME, server_default=_NOW, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", name="pk_gold_tables"),
        sa.CheckConstraint("status IN ('active', 'deleted')", name="ck_gold_tables_status"),
    )
    op.create_index(
        "ix_gold_tables_unpublished", "gold_tables", ["updated_at"], postgresql_where=sa.text("NOT published")
    )
    op.create_table(
        "table_refreshes",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("table", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("detail", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "table", name="pk_table_refreshes"),
        sa.CheckConstraint("status IN ('succeeded', 'failed')", name="ck_table_refreshes_status"),
    )


def downgrade() -> None:
    op.drop_table("table_refreshes")
    op.drop_table("gold_tables")
