"""What egress knows of an asset, found by a name of any letter case.

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("egress_registers", sa.Column("folded", sa.Uuid(), nullable=True))


def downgrade() -> None:
    op.drop_column("egress_registers", "folded")
