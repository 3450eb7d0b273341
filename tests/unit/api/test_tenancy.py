"""The guard that no statement on a tenant's table runs without its tenant; and that every such table is known to it."""

from __future__ import annotations

import pytest
from sqlalchemy import delete, exists, func, insert, or_, select, text, update
from sqlalchemy.orm import aliased

from lily_api.keys.models import ApiKey
from lily_api.migrations.models import METADATA
from lily_api.oauth.models import OAuthClient
from lily_api.tenants.models import Tenant
from lily_common.db import tenant_scope
from lily_common.tenancy import UnscopedQueryError, check, owned_tables

Other = aliased(ApiKey)


def _scoped(statement, model=ApiKey):
    return tenant_scope(statement, model, "a")


FINE = [
    _scoped(select(ApiKey)),
    _scoped(select(ApiKey.id).where(ApiKey.id == "x").order_by(ApiKey.id).limit(1)),
    _scoped(select(func.count()).select_from(ApiKey)),
    _scoped(update(ApiKey).values(name="x")),
    _scoped(delete(ApiKey)),
    _scoped(select(ApiKey).where(or_(ApiKey.name == "x", ApiKey.tenant == "b"))),
    _scoped(select(ApiKey).join(OAuthClient, OAuthClient.tenant == ApiKey.tenant)),
    _scoped(_scoped(select(ApiKey, OAuthClient)), OAuthClient),
    select(Tenant),
    select(1),
    select(_scoped(select(ApiKey)).subquery()),
    select(exists(_scoped(select(ApiKey.id)))),
    insert(ApiKey).values(id="x"),
    text("SELECT 1"),
]
REFUSED = [
    select(ApiKey),
    select(ApiKey).where(ApiKey.id == "x"),
    select(ApiKey).where(or_(ApiKey.tenant == "a", ApiKey.id == "x")),
    select(ApiKey).where(ApiKey.tenant != "a"),
    select(ApiKey).where(ApiKey.tenant.in_(["a", "b"])),
    select(func.count()).select_from(ApiKey),
    _scoped(select(ApiKey, OAuthClient)),
    _scoped(select(ApiKey).join(OAuthClient, OAuthClient.name == ApiKey.name)),
    select(select(ApiKey).subquery()),
    select(exists(select(ApiKey.id))),
    select(Tenant).where(Tenant.id.in_(select(ApiKey.tenant))),
    update(ApiKey).values(name="x"),
    update(ApiKey).where(ApiKey.id == "x").values(tenant="b"),
    delete(ApiKey),
    select(Other).where(Other.name == "x"),
    text("SELECT * FROM api_keys"),
    text("UPDATE api_keys SET name = 'x'"),
]


@pytest.mark.parametrize("statement", FINE, ids=str)
def test_scoped_statements_pass(statement) -> None:
    check(statement)


@pytest.mark.parametrize("statement", REFUSED, ids=str)
def test_unscoped_statements_are_refused(statement) -> None:
    with pytest.raises(UnscopedQueryError):
        check(statement)


def test_every_table_with_a_tenant_is_guarded() -> None:
    with_tenant = {table.name for table in METADATA.tables.values() if "tenant" in table.columns}
    assert with_tenant == owned_tables()
    assert {"api_keys", "oauth_clients", "audit_log"} <= owned_tables()
