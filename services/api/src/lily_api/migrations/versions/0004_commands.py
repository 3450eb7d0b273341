"""Commands to the lake job.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_NOW = sa.text("now()")
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "commands",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("args", postgresql.JSONB(), server_default="{}", nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default="accepted", nullable=False),
        sa.Column("detail", postgresql.JSONB(), nullable=True),
        sa.Column("created_at", _TIME, server_default=_NOW, nullable=False),
        sa.Column("updated_at", _TIME, server_default=_NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_commands"),
        sa.CheckConstraint(
            "status IN ('accepted', 'queued', 'running', 'succeeded', 'failed')", name="ck_commands_status"
        ),
    )
    op.create_index("ix_commands_tenant", "commands", ["tenant"])
    op.create_index("ix_commands_tenant_created_at", "commands", ["tenant", "created_at", "id"])
    op.create_index(
        "ix_commands_open", "commands", ["created_at"], postgresql_where=sa.text("status = 'accepted'")
    )


def downgrade() -> None:
    op.drop_table("commands")
