"""Tenants, API keys, OAuth clients and the audit log.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_NOW = sa.text("now()")
_TIME = sa.DateTime(timezone=True)

_FORBID = """
CREATE FUNCTION audit_log_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'restrict_violation';
END $$
"""
_ROWS = """
CREATE TRIGGER audit_log_no_change BEFORE UPDATE OR DELETE ON audit_log
FOR EACH ROW EXECUTE FUNCTION audit_log_is_append_only()
"""
_TABLE = """
CREATE TRIGGER audit_log_no_truncate BEFORE TRUNCATE ON audit_log
FOR EACH STATEMENT EXECUTE FUNCTION audit_log_is_append_only()
"""


def upgrade() -> None:
    op.create_table(
        "tenants",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sensitive_fields", postgresql.JSONB(), nullable=False),
        sa.Column("created_at", _TIME, server_default=_NOW, nullable=False),
        sa.Column("updated_at", _TIME, server_default=_NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tenants"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("scopes", postgresql.JSONB(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", _TIME, server_default=_NOW, nullable=False),
        sa.Column("expires_at", _TIME, nullable=True),
        sa.Column("revoked_at", _TIME, nullable=True),
        sa.Column("last_used_at", _TIME, nullable=True),
        sa.Column("rotated_from", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("prefix", name="uq_api_keys_prefix"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"], name="fk_api_keys_tenant_tenants"),
    )
    op.create_index("ix_api_keys_tenant", "api_keys", ["tenant"])
    op.create_table(
        "oauth_clients",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret_prefix", sa.Text(), nullable=False),
        sa.Column("secret_digest", sa.Text(), nullable=False),
        sa.Column("previous_digest", sa.Text(), nullable=True),
        sa.Column("previous_until", _TIME, nullable=True),
        sa.Column("scopes", postgresql.JSONB(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", _TIME, server_default=_NOW, nullable=False),
        sa.Column("revoked_at", _TIME, nullable=True),
        sa.Column("last_used_at", _TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_oauth_clients"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"], name="fk_oauth_clients_tenant_tenants"),
    )
    op.create_index("ix_oauth_clients_tenant", "oauth_clients", ["tenant"])
    op.create_table(
        "audit_log",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("previous_hash", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "seq", name="pk_audit_log"),
    )
    for statement in (_FORBID, _ROWS, _TABLE):
        op.execute(statement)


def downgrade() -> None:
    op.drop_table("audit_log")
    op.execute("DROP FUNCTION audit_log_is_append_only()")
    op.drop_table("oauth_clients")
    op.drop_table("api_keys")
    op.drop_table("tenants")
