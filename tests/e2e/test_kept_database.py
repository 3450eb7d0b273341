"""A PostgreSQL database kept in line with tags, through the API: from a tag's POST to what a reader's query shows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.kept import EMAILS, KeptShop, kept_shop
from tests.support.poll import until
from tests.support.stack import Stack
from tests.support.tenant import Tenant, event

pytestmark = pytest.mark.stack


@pytest.fixture
def shop(stack: Stack, tenant: Tenant) -> Iterator[KeptShop]:
    with kept_shop(stack, tenant) as made:
        yield made


def test_a_tag_masks_the_next_query_and_all_can_be_taken_back(shop: KeptShop) -> None:
    connector = shop.connect()
    assert shop.seen() == EMAILS
    assert shop.refused("SELECT email FROM customers")
    shop.tag("customers/email")
    until(lambda: shop.seen() == [None, None], "the mask")
    assert shop.seen("contacts", "address") == EMAILS
    shop.tag("customers/email", attach=False)
    until(lambda: shop.seen() == EMAILS, "the mask to go")
    answer = shop.tenant.client.delete(f"/v1/connectors/{connector}")
    assert answer.json()["removed"], answer.text
    assert [row[0] for row in shop.run("SELECT email FROM customers ORDER BY id", reader=True)] == EMAILS
    assert shop.run("SELECT nspname FROM pg_namespace WHERE nspname ~ 'lily|analyst'") == []


def test_a_tag_that_came_down_the_lineage_revokes(shop: KeptShop) -> None:
    shop.connect(enforce="columns")
    rule = {"classifications": ["PII"], "along": ["column"]}
    assert shop.tenant.client.put("/v1/propagation/rules/down", json=rule).is_success
    edge = {
        "upstream": f"{shop.root}/customers/email",
        "downstream": f"{shop.root}/contacts/address",
        "kind": "column",
    }
    shop.tenant.send(event("lineage.edge.added", edge))
    shop.tag("customers/email")
    until(lambda: shop.refused("SELECT address FROM contacts"), "the privilege to go")
    assert shop.run("SELECT id FROM contacts ORDER BY id", reader=True) == [(1,), (2,)]
    shop.tag("customers/email", attach=False)
    until(lambda: not shop.refused("SELECT address FROM contacts"), "the privilege to come back")


def test_drift_is_told_and_put_right(shop: KeptShop) -> None:
    connector = shop.connect()
    shop.tag("customers/email")
    until(lambda: shop.seen() == [None, None], "the mask")
    shop.run(f"GRANT SELECT ON customers TO {shop.reader}")
    shop.run(f"DROP VIEW public_{shop.reader}.contacts")
    assert shop.tenant.client.patch(f"/v1/connectors/{connector}", json={"status": "active"}).is_success
    assert shop.refused("SELECT email FROM customers")
    assert shop.seen("contacts", "address") == EMAILS
    told = shop.tenant.get(f"/v1/connectors/{connector}/status")
    assert told["state"] == "running", told
    assert len(told["drift"]) == 2
    audited = shop.tenant.get("/v1/audit", action="enforcement.drift")["items"]
    assert audited[0]["detail"]["of"] == 2


def test_what_cannot_be_done_is_told(shop: KeptShop) -> None:
    connector = shop.connect(password="not the password")
    told = shop.tenant.get(f"/v1/connectors/{connector}/status")
    assert told["state"] == "failed"
    assert "authentication" in told["problem"]
    answer = shop.tenant.client.patch(
        f"/v1/connectors/{connector}", json={"config": {"host": "127.0.0.1", "database": "another"}}
    )
    assert answer.status_code == 422
