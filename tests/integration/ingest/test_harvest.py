"""The PostgreSQL harvest, from a real database through the real command to the topics."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest
from tests.support.stack import Stack
from tests.support.tenant import Tenant

from .conftest import Watch

pytestmark = pytest.mark.stack
SHOP = """
CREATE TABLE customers (id int PRIMARY KEY, email varchar(255) NOT NULL);
COMMENT ON COLUMN customers.email IS 'Where invoices go';
CREATE TABLE orders (id bigint, line int, customer_id int REFERENCES customers, PRIMARY KEY (id, line));
CREATE VIEW order_counts AS SELECT customer_id, count(*) FROM orders GROUP BY 1;
CREATE SCHEMA secret; CREATE TABLE secret.t (a int);
CREATE TABLE "we.ird /|% 😀" (a int);
"""


@pytest.fixture
def shop(stack: Stack) -> Iterator[str]:
    """URI of a seeded database of its own on the stack's server."""
    base = stack.environment["POSTGRES_URI"]
    name = f"shop_{secrets.token_hex(4)}"
    with psycopg.connect(base, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
    uri = base.rsplit("/", 1)[0] + f"/{name}"
    with psycopg.connect(uri, autocommit=True) as database:
        database.execute(SHOP)
    yield uri
    with psycopg.connect(base, autocommit=True) as server:
        server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def harvest(
    tenant: Tenant, dsn: str, *options: str, key: str | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lily_connectors", "harvest", "postgres"]
    environment = os.environ | {
        "LILY_API_KEY": key or tenant.key,
        "LILY_URL": tenant.url,
        "LILY_HARVEST_DSN": dsn,
    }
    return subprocess.run([*command, *options], env=environment, capture_output=True, text=True, timeout=120)


def test_a_database_becomes_assets_and_a_second_harvest_adds_nothing(
    tenant: Tenant, watch: Watch, shop: str
) -> None:
    done = harvest(tenant, shop, "--namespace", "postgres://shop-db:5432", "--exclude", "secret")
    assert done.returncode == 0, done.stderr
    database = shop.rsplit("/", 1)[1]
    base = f"postgres://shop-db:5432/{database}"
    first = watch.changes()
    assert done.stdout.strip() == f"{len(first)} accepted, 0 rejected"
    patched = {change["subject"]: change["data"]["set"] for change in first if "set" in change["data"]}
    assert patched[base]["asset_type"] == "database"
    assert patched[f"{base}/public"]["asset_type"] == "schema"
    assert patched[f"{base}/public/orders"]["primary_key"] == ["id", "line"]
    assert patched[f"{base}/public/customers/email"] == {
        "asset_type": "column",
        "data_type": "character varying(255)",
        "nullable": False,
        "ordinal": 2,
        "description": "Where invoices go",
    }
    assert patched[f"{base}/public/we%2Eird %2F%7C%25 😀"]["name"] == "we.ird /|% 😀"
    assert not any("secret" in subject for subject in patched)
    edges = [change["data"] for change in first if "upstream" in change["data"]]
    assert [(edge["upstream"], edge["downstream"]) for edge in edges] == [
        (f"{base}/public/orders", f"{base}/public/order_counts")
    ]
    lanes = {change["lane"] for change in first if change["data"].get("asset_type") == "column"}
    assert lanes == {"bulk"}

    def identities() -> set[str]:
        return {change["id"] for change in watch.changes()}

    before = identities()
    harvest(tenant, shop, "--namespace", "postgres://shop-db:5432", "--exclude", "secret")
    assert identities() == before
    with psycopg.connect(shop, autocommit=True) as connection:
        connection.execute("ALTER TABLE customers ALTER email TYPE text; ")
        connection.execute("ALTER TABLE customers ALTER email TYPE varchar(255)")
        connection.execute("VACUUM ANALYZE")
    harvest(tenant, shop, "--namespace", "postgres://shop-db:5432", "--exclude", "secret")
    new = identities() - before
    subjects = {change["subject"] for change in watch.changes() if change["id"] in new}
    assert f"{base}/public/customers/email" in subjects, "changed and changed back is news"
    assert subjects <= {f"{base}/public/customers", f"{base}/public/customers/email"}


def test_what_goes_wrong_is_said_in_a_line(tenant: Tenant, shop: str) -> None:
    refused = harvest(tenant, shop, key="lily_abcdefgh_wrong")
    assert (refused.returncode, "401" in refused.stderr) == (1, True)
    unreachable = harvest(tenant, "postgresql://nobody@127.0.0.1:1/x")
    assert (unreachable.returncode, "cannot be read" in unreachable.stderr) == (1, True)
    assert "Traceback" not in refused.stderr + unreachable.stderr
