"""What is news and what is not: only changes of effective state are told, and a late older event changes nothing.

"Nothing" is shown by what comes after it: a later change of the same asset arrives, in order, and nothing before it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.support.ledger import Identity
from tests.support.poll import until
from tests.support.receiver import ReceiverProcess
from tests.support.stack import Stack
from tests.support.tenant import SOURCE, Tenant, event
from tests.support.verdict import settle

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def told(tenant: Tenant, receiver: ReceiverProcess) -> Tenant:
    tenant.subscribe("hook", receiver)
    return tenant


def fresh() -> str:
    return f"postgres://shop-db:5432/shop/public/t_{uuid4().hex[:8]}"


def attach(asset: str, **data: Any) -> dict[str, Any]:
    return event("classification.attached", {"qualified_name": asset, "tag": "PII", **data})


def detach(asset: str, **data: Any) -> dict[str, Any]:
    return event("classification.detached", {"qualified_name": asset, "tag": "PII", **data})


def news(tenant: Tenant, receiver: ReceiverProcess, asset: str, *, until_id: str) -> list[str]:
    """Ids told about the asset, in order of arrival, up to and with that one."""

    def ids() -> list[str] | None:
        seen = [a.body["id"] for a in receiver.arrivals(tenant.path("hook")) if a.body["subject"] == asset]
        return list(dict.fromkeys(seen)) if until_id in seen else None

    found = until(ids, f"news {until_id}")
    assert found is not None
    return found


def send_each(tenant: Tenant, *events: dict[str, Any]) -> list[str]:
    for item in events:
        tenant.send(item)
    return [item["id"] for item in events]


def test_a_tag_asserted_again_is_no_news(told: Tenant, receiver: ReceiverProcess) -> None:
    asset = fresh()
    first, _, _, last = send_each(told, attach(asset), attach(asset), attach(asset), detach(asset))
    assert news(told, receiver, asset, until_id=last) == [first, last]


def test_the_same_event_again_is_no_news(told: Tenant, receiver: ReceiverProcess) -> None:
    asset = fresh()
    on, off = attach(asset), detach(asset)
    send_each(told, on, on, off, on, off)
    last = attach(asset)
    told.send(last)
    assert news(told, receiver, asset, until_id=last["id"]) == [on["id"], off["id"], last["id"]]


def test_one_of_two_origins_gone_is_no_news(told: Tenant, receiver: ReceiverProcess) -> None:
    asset = fresh()
    ids = send_each(
        told,
        attach(asset, origin="direct"),
        attach(asset, origin="lineage"),
        detach(asset, origin="direct"),
        detach(asset, origin="lineage"),
    )
    assert news(told, receiver, asset, until_id=ids[3]) == [ids[0], ids[3]]


def test_an_older_event_that_comes_late_is_no_news(told: Tenant, receiver: ReceiverProcess) -> None:
    asset = fresh()
    late = attach(asset) | {"time": (datetime.now(UTC) - timedelta(hours=1)).isoformat()}
    on, off = attach(asset), detach(asset)
    send_each(told, on, off, late)
    last = attach(asset)
    told.send(last)
    assert news(told, receiver, asset, until_id=last["id"]) == [on["id"], off["id"], last["id"]]


def test_a_late_older_event_after_a_delete_resurrects_nothing(
    told: Tenant, receiver: ReceiverProcess, stack: Stack
) -> None:
    asset = fresh()
    past = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    on, gone = attach(asset), event("asset.deleted", {"qualified_name": asset})
    late_tag = attach(asset, origin="late") | {"time": past}
    described = {"qualified_name": asset, "asset_type": "table", "name": "revenant"}
    late_upsert = event("asset.upserted", described, time=past)
    send_each(told, on, gone, late_tag, late_upsert)
    found = news(told, receiver, asset, until_id=gone["id"])
    assert found[0] == on["id"]
    settle(stack, told.ledger, receiver)
    answer = told.client.get(f"/v1/assets/{quote(asset, safe='')}")
    assert answer.status_code == 404
    assert answer.json()["type"].endswith("asset-deleted")
    document = stack.mirror.asset(told.id, asset)
    assert document is not None
    assert document["deleted"]
    assert document["tags"] == []
    # Made anew after the delete, it has none of what it had before.
    again = event("asset.upserted", {**described, "name": "anew"})
    told.send(again)
    view = until(lambda: told.get(f"/v1/assets/{quote(asset, safe='')}"))
    assert (view["name"], view["tags"]) == ("anew", [])


def test_a_delete_takes_back_the_tags_that_it_ends(told: Tenant, receiver: ReceiverProcess) -> None:
    asset = fresh()
    on, gone = attach(asset), event("asset.deleted", {"qualified_name": asset})
    send_each(told, on, gone)
    news(told, receiver, asset, until_id=gone["id"])
    bodies = [a.body for a in receiver.arrivals(told.path("hook")) if a.body["subject"] == asset]
    kinds = [(body["type"], body.get("causeid")) for body in bodies]
    assert kinds == [
        ("lily.classification.attached", None),
        ("lily.classification.detached", gone["id"]),
        ("lily.asset.deleted", None),
    ]


def test_of_two_bodies_under_one_id_the_first_counts(
    told: Tenant, receiver: ReceiverProcess, stack: Stack
) -> None:
    asset = fresh()
    data = {"qualified_name": asset, "asset_type": "table", "name": "first"}
    first = event("asset.upserted", data)
    told.send(first)
    told.send({**first, "data": {**data, "name": "second"}})
    settle(stack, told.ledger, receiver)
    assert stack.lake.bronze(told.id)[Identity(told.id, SOURCE, first["id"])] == [data]
    assert told.get(f"/v1/assets/{quote(asset, safe='')}")["name"] == "first"


def test_a_tag_before_its_asset_makes_a_partial_asset(told: Tenant) -> None:
    asset = fresh()
    told.send(attach(asset))
    path = f"/v1/assets/{quote(asset, safe='')}"
    assert until(lambda: told.get(path))["partial"]
    told.send(event("asset.upserted", {"qualified_name": asset, "asset_type": "table", "name": "late"}))
    view = until(lambda: v if not (v := told.get(path))["partial"] else None)
    assert [held["tag"] for held in view["tags"]] == ["PII"]


def test_another_tenant_hears_and_sees_nothing(
    told: Tenant, other: Tenant, receiver: ReceiverProcess, stack: Stack
) -> None:
    asset = fresh()
    other.subscribe("hook", receiver)
    told.send(attach(asset))
    own = attach(asset, origin="its-own")
    other.send(own)
    assert news(other, receiver, asset, until_id=own["id"]) == [own["id"]]
    until(lambda: told.get(f"/v1/assets/{quote(asset, safe='')}"))
    origins = until(lambda: other.get(f"/v1/assets/{quote(asset, safe='')}"))["tags"][0]["origins"]
    assert [held["origin"] for held in origins] == ["its-own"]
    settle(stack, other.ledger, receiver)


def test_all_of_it_stands_before_the_ledger(told: Tenant, receiver: ReceiverProcess, stack: Stack) -> None:
    verdict = settle(stack, told.ledger, receiver)
    assert verdict.indeterminate == 0
    assert verdict.demanded >= 10
