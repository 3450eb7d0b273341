"""Declarations by name: rules, policies, mappings.

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_NOW = sa.text("now()")
_TIME = sa.DateTime(timezone=True)
#: Egress tells which policies are about a tag: it reads them anew as it does subscriptions. A tenant without a
#: generation has not been read at all.
_CHANGED = """
CREATE FUNCTION policies_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE subscription_generations SET generation = generation + 1 WHERE tenant = NEW.tenant;
    PERFORM pg_notify('lily_egress', 'subscriptions ' || NEW.tenant);
    RETURN NULL;
END $$
"""
_TRIGGER = """
CREATE TRIGGER policies_changed AFTER INSERT OR UPDATE OF body, status ON declarations
FOR EACH ROW WHEN (NEW.kind = 'policy') EXECUTE FUNCTION policies_changed()
"""


def upgrade() -> None:
    op.create_table(
        "declarations",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), server_default="active", nullable=False),
        sa.Column("published", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", _TIME, server_default=_NOW, nullable=False),
        sa.Column("updated_at", _TIME, server_default=_NOW, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "kind", "name", name="pk_declarations"),
        sa.CheckConstraint("status IN ('active', 'deleted')", name="ck_declarations_status"),
    )
    op.create_index(
        "ix_declarations_unpublished",
        "declarations",
        ["updated_at"],
        postgresql_where=sa.text("NOT published"),
    )
    op.execute(_CHANGED)
    op.execute(_TRIGGER)


def downgrade() -> None:
    op.drop_table("declarations")
    op.execute("DROP FUNCTION policies_changed()")
