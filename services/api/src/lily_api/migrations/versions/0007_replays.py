"""Replayed deliveries and cancelled commands.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_DUE = "status = 'pending' AND next_attempt_at IS NOT NULL"
_STATUSES = "'accepted', 'queued', 'running', 'succeeded', 'failed'"


def _allow(statuses: str) -> None:
    # The first name is what 0004's became by the naming convention.
    for name in ("ck_commands_ck_commands_status", "ck_commands_status"):
        op.execute(f"ALTER TABLE commands DROP CONSTRAINT IF EXISTS {name}")
    op.execute(f"ALTER TABLE commands ADD CONSTRAINT ck_commands_status CHECK (status IN ({statuses}))")


def upgrade() -> None:
    op.add_column("deliveries", sa.Column("replay_id", sa.Text(), nullable=True))
    op.drop_index("ix_deliveries_due", "deliveries")
    for name, whose in (
        ("ix_deliveries_due", "replay_id IS NULL"),
        ("ix_deliveries_due_replayed", "replay_id IS NOT NULL"),
    ):
        op.create_index(
            name,
            "deliveries",
            ["subscription_id", "next_attempt_at"],
            postgresql_where=sa.text(f"{_DUE} AND {whose}"),
        )
    op.create_index(
        "ix_deliveries_replay",
        "deliveries",
        ["tenant", "replay_id", "position"],
        postgresql_where=sa.text("replay_id IS NOT NULL"),
    )
    _allow(f"{_STATUSES}, 'cancelled'")


def downgrade() -> None:
    op.execute("UPDATE commands SET status = 'failed' WHERE status = 'cancelled'")
    _allow(_STATUSES)
    for name in ("ix_deliveries_replay", "ix_deliveries_due_replayed", "ix_deliveries_due"):
        op.drop_index(name, "deliveries")
    op.create_index(
        "ix_deliveries_due",
        "deliveries",
        ["subscription_id", "next_attempt_at"],
        postgresql_where=sa.text(_DUE),
    )
    op.drop_column("deliveries", "replay_id")
