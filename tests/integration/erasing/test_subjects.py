"""A person and a whole tenant, erased: from captured rows, the tables made of them and the mirror too."""

from __future__ import annotations

import secrets
from typing import Any

import httpx
import pytest
from tests.support.databases import Database, Sources
from tests.support.poll import until
from tests.support.stack import Stack
from tests.support.tenant import event
from tests.support.traces import traces

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]
_TABLE: dict[str, Any] = {
    "fact": "cdc.shop.public.customers",
    "select": {"id": "customers.id", "email": "customers.email"},
    "key": ["id"],
    "interval": "1s",
    "full_refresh": None,
}


def _outside_kafka(stack: Stack, word: str) -> list[str]:
    return sorted(place for place in traces(stack, word) if not place.startswith("kafka:"))


def test_a_person_leaves_captured_rows_tables_and_mirror(
    worker: Stack, sources: Sources, database: Database
) -> None:
    tenant, word = sources.tenant, f"mk{secrets.token_hex(8)}"
    database.run("CREATE TABLE customers (id integer PRIMARY KEY, email text, note text)")
    database.run(
        "INSERT INTO customers VALUES (1, %s, 'a'), (2, 'other@example.com', 'b')", f"{word}@example.com"
    )
    mirror = {"public.customers": {"columns": ["email"], "ttl_days": 30}}
    sources.wait(sources.postgres(database, "public.customers", mirror=mirror), "running")
    assert tenant.client.put("/v1/tables/addresses", json=_TABLE).status_code == 201

    def ids() -> list[int]:
        return [row["id"] for row in tenant.get("/v1/tables/addresses/rows")["items"]]

    until(lambda: ids() == [1, 2], "the table to follow", deadline=240, pause=0.5)
    topic = f"cdc.{tenant.id}.shop.public.customers"
    collection = worker.mirror.database[topic]
    until(lambda: collection.count_documents({"email": {"$exists": True}}) == 2, "the mirror", deadline=60)
    held = "\n".join(sorted(traces(worker, word)))
    for expected in (
        f"lake:lily-lake/cdc/{tenant.id}/shop/public.customers/",
        f"lake:lily-lake/gold/{tenant.id}/addresses/",
        f"mongo:lily.{topic}",
        f"kafka:{topic}",
        "volume:",
    ):
        assert expected in held, f"{expected} is not among\n{held}"

    answer = tenant.client.post("/v1/erasures", json={"person": f"{word.upper()}@Example.com"})
    assert answer.status_code == 202, answer.text
    erasure = answer.json()["id"]

    def applied() -> bool:
        view = tenant.get(f"/v1/erasures/{erasure}")
        return view["status"] in ("applied", "completed")

    until(applied, "the erasure to be applied", deadline=300)
    assert not _outside_kafka(worker, word)
    assert ids() == [2]
    # The source still has the row: what it sends of it is stopped, and costs no other row.
    database.run(
        "UPDATE customers SET note = 'again' WHERE id = 1; INSERT INTO customers VALUES (3, 'c@x.io', 'c')"
    )
    until(lambda: ids() == [2, 3], "the table to follow", deadline=240, pause=0.5)
    assert collection.count_documents({"_id": "[1]", "__deleted": False}) == 0
    assert not _outside_kafka(worker, word)


def test_a_whole_tenant(stack: Stack) -> None:
    tenant, other, word = stack.new_tenant(), stack.new_tenant(), f"mk{secrets.token_hex(8)}"
    for one, description in ((tenant, word), (other, "stays")):
        asset = {"qualified_name": "demo://a/b", "asset_type": "table", "description": description}
        one.send(event("asset.upserted", asset), event("classification.attached", asset | {"tag": "PII"}))
    until(
        lambda: len(stack.lake.bronze(tenant.id)) == len(stack.lake.bronze(other.id)) == 2,
        "bronze",
        deadline=60,
    )
    until(lambda: stack.mirror.asset(tenant.id, "demo://a/b") is not None, "the mirror", deadline=60)
    before = stack.lake.bronze(other.id)
    operator = {"Authorization": f"Bearer {stack.environment['LILY_ADMIN_KEY']}", "X-Lily-Tenant": tenant.id}
    with httpx.Client(base_url=stack.url, headers=operator, timeout=30, trust_env=False) as client:
        wrong = client.post("/v1/erasures", json={"tenant": tenant.id, "confirm": other.id})
        assert wrong.status_code == 422, wrong.text
        answer = client.post("/v1/erasures", json={"tenant": tenant.id, "confirm": tenant.id})
        assert answer.status_code == 202, answer.text
        path = f"/v1/erasures/{answer.json()['id']}"
        until(
            lambda: client.get(path).json()["status"] in ("applied", "completed"),
            "the erasure to be applied",
            deadline=300,
        )
    assert not _outside_kafka(stack, word)
    assert not stack.lake.bronze(tenant.id)
    assert not stack.lake.silver(tenant.id)
    assert stack.mirror.asset(tenant.id, "demo://a/b") is None
    assert stack.lake.bronze(other.id) == before
    assert stack.mirror.asset(other.id, "demo://a/b") is not None
