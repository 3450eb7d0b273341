"""A tag is obeyed by the next query of a real Trino, on a table captured from a real database."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine, text

from tests.support.poll import until
from tests.support.stack import Stack
from tests.support.tenant import event
from tests.support.trino import EMAILS, TrinoShop, trino_shop, with_trino

pytestmark = [pytest.mark.stack, pytest.mark.trino, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def engine(worker: Stack) -> Stack:
    return with_trino(worker)


@pytest.fixture(scope="module")
def shop(engine: Stack) -> Iterator[TrinoShop]:
    with trino_shop(engine) as made:
        yield made


@pytest.fixture
def masked(shop: TrinoShop) -> Iterator[TrinoShop]:
    """The column email is tagged, and Trino knows."""
    shop.tag("customers/email")
    until(lambda: shop.emails() == [None, None], "the mask")
    yield shop
    shop.tag("customers/email", attach=False)
    until(lambda: shop.emails() == EMAILS, "the mask to go")


def test_a_tag_masks_the_next_query_and_its_removal_shows_again(masked: TrinoShop) -> None:
    assert masked.emails("customers") == [None, None]
    assert masked.steward.column(f"SELECT email FROM {masked.schema}.customers_latest") == EMAILS


def test_a_column_downstream_is_masked_too(shop: TrinoShop) -> None:
    rule = {"classifications": ["PII"], "along": ["column"]}
    shop.put("propagation/rules", "downstream", **rule)
    edge = {
        "upstream": f"{shop.root}/customers/email",
        "downstream": f"{shop.root}/contacts/address",
        "kind": "column",
    }
    shop.tenant.send(event("lineage.edge.added", edge))
    shop.tag("customers/email")
    until(lambda: shop.emails("contacts_latest", "address") == [None, None], "the mask downstream")
    shop.tag("customers/email", attach=False)
    until(lambda: shop.emails("contacts_latest", "address") == EMAILS, "the mask to go")


def test_names_that_differ_by_letter_case_are_masked(shop: TrinoShop) -> None:
    """Trino folds names: `"Partners"."eMail"` of the database is `partners.email` in its questions."""
    shop.tag("Partners/eMail")
    until(lambda: shop.emails("partners_latest") == [None, None], "the mask")
    assert shop.emails("partners") == [None, None]
    shop.tag("Partners/eMail", attach=False)
    until(lambda: shop.emails("partners_latest") == EMAILS, "the mask to go")


def test_the_mask_holds_in_joins_conditions_copies_and_views(masked: TrinoShop) -> None:
    ask, schema = masked.analyst.column, masked.schema
    assert ask(f"SELECT id FROM {schema}.customers_latest WHERE email = 'ann@example.org'") == []
    assert ask(f"SELECT id FROM {schema}.customers_latest WHERE email IS NULL") == [1, 2]
    joined = (
        f"SELECT c.id FROM {schema}.customers_latest c JOIN {schema}.contacts_latest a ON a.address = c.email"
    )
    assert ask(joined) == []
    assert ask(f"SELECT max(email) FROM {schema}.customers") == [None]
    copy = f"scratch.default.copy_{secrets.token_hex(3)}"
    masked.analyst.rows(f"CREATE TABLE {copy} AS SELECT email FROM {schema}.customers_latest")
    assert ask(f"SELECT email FROM {copy}") == [None, None]
    view = f"scratch.default.view_{secrets.token_hex(3)}"
    masked.analyst.rows(f"CREATE VIEW {view} SECURITY INVOKER AS SELECT email FROM {schema}.customers_latest")
    assert ask(f"SELECT email FROM {view}") == [None, None]
    assert set(ask(f'SELECT "$path" FROM {schema}.customers')) == {None}


@pytest.mark.parametrize(
    "statement",
    [
        'SELECT * FROM {0}."customers$transactions"',
        'SELECT * FROM {0}."customers$partitions"',
        "SELECT * FROM TABLE(lake.system.table_changes('{0}', 'customers'))",
        "CALL lake.system.register_table('{0}', 'aside', 's3://lily-lake/cdc')",
        "CALL lake.system.unregister_table('{0}', 'customers')",
        "CREATE OR REPLACE VIEW {0}.customers_latest SECURITY INVOKER AS SELECT 1 AS email",
        "DROP VIEW {0}.customers_latest",
        "ALTER SCHEMA {0} RENAME TO aside",
    ],
)
def test_nothing_goes_round_the_mask(masked: TrinoShop, statement: str) -> None:
    assert "Access Denied" in masked.analyst.refused(statement.format(masked.schema))


def test_an_operator_may_what_masks_do_not_reach(shop: TrinoShop) -> None:
    assert shop.steward.rows(f'SELECT * FROM {shop.schema}."customers$history"')


def test_a_view_that_lends_its_owners_eyes_shows_nothing(masked: TrinoShop) -> None:
    view = f"scratch.default.lent_{secrets.token_hex(3)}"
    masked.steward.rows(
        f"CREATE VIEW {view} SECURITY DEFINER AS SELECT email FROM {masked.schema}.customers_latest"
    )
    assert "Access Denied" in masked.analyst.refused(f"SELECT email FROM {view}")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {0}.customers (id) VALUES (9)",
        "DELETE FROM {0}.customers",
        "UPDATE {0}.customers SET email = ''",
        "DROP TABLE {0}.customers",
        "ALTER TABLE {0}.customers ADD COLUMN note varchar",
        "ALTER TABLE {0}.customers EXECUTE optimize",
    ],
)
def test_nobody_writes_to_the_lake_through_trino(shop: TrinoShop, statement: str) -> None:
    assert "Access Denied" in shop.analyst.refused(statement.format(shop.schema))


def test_a_denied_column_cannot_be_read_nor_a_view_that_reads_it(shop: TrinoShop) -> None:
    shop.put("policies", "secret", tags=["Secret"], action="deny")
    shop.tag("customers/name", "Secret")

    def denied() -> bool:
        return "Access Denied" in shop.analyst.refused(f"SELECT name FROM {shop.schema}.customers")

    until(denied, "the column to be denied")
    assert "Access Denied" in shop.analyst.refused(f"SELECT id FROM {shop.schema}.customers_latest")
    assert shop.analyst.column(f"SELECT id FROM {shop.schema}.customers") == [1, 2]
    shop.tag("customers/name", "Secret", attach=False)
    until(lambda: shop.analyst.column(f"SELECT name FROM {shop.schema}.customers_latest") == ["Ann", "Bo"])


def test_rows_are_filtered(shop: TrinoShop) -> None:
    shop.put("policies", "regional", tags=["Regional"], action="filter", filter="region = 'eu'")
    shop.tag("customers", "Regional")
    until(lambda: shop.emails() == EMAILS[:1], "the rows to be filtered")
    shop.tag("customers", "Regional", attach=False)
    until(lambda: shop.emails() == EMAILS, "all rows again")


def test_a_tenant_sees_only_its_own_rows(shop: TrinoShop, engine: Stack) -> None:
    """The lake's table of every tenant's assets, mapped with a condition on its rows."""
    other = engine.new_tenant()
    other.send(event("asset.upserted", {"qualified_name": "demo://other", "asset_type": "table"}))
    shop.tenant.send(event("asset.upserted", {"qualified_name": "demo://own", "asset_type": "table"}))
    until(lambda: engine.lake.silver(other.id) and engine.lake.silver(shop.tenant.id), "both in the lake")
    schema = f"silver_{secrets.token_hex(3)}"
    location = f"{engine.environment['LAKE_URI'].replace('s3a://', 's3://')}/silver/assets"
    shop.steward.rows(f"CREATE SCHEMA {schema}")
    shop.steward.rows(f"CALL lake.system.register_table('{schema}', 'assets', '{location}')")
    asked = f"SELECT DISTINCT tenant FROM {schema}.assets"
    assert {other.id, shop.tenant.id} <= set(shop.analyst.column(asked))
    rows = f"tenant = '{shop.tenant.id}'"
    shop.put("mappings", schema, table=f"lake.{schema}.assets", asset=f"lily://lake/{schema}", rows=rows)
    until(lambda: shop.analyst.column(asked) == [shop.tenant.id], "only the tenant's rows")
    assert shop.analyst.column(f"SELECT count(*) FROM {schema}.assets WHERE tenant = '{other.id}'") == [0]
    assert shop.steward.column(asked) == [shop.tenant.id]


def test_a_dashboard_asks_through_sqlalchemy(masked: TrinoShop, engine: Stack) -> None:
    address = f"trino://ann@127.0.0.1:{engine.config.port('trino')}/lake/{masked.schema}"
    with create_engine(address).connect() as connection:
        rows = connection.execute(text("SELECT id, email FROM customers_latest ORDER BY id")).all()
    assert [tuple(row) for row in rows] == [(1, None), (2, None)]
