"""A tag travels down the lineage and is taken back: from the API through the lake job to a webhook and to the asset."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.support.poll import until
from tests.support.receiver import ReceiverProcess
from tests.support.stack import Stack
from tests.support.tenant import Tenant, event

pytestmark = pytest.mark.stack

RULE = {"classifications": ["PII"], "along": ["table", "column", "children"], "stop_at": ["Anonymised"]}


class Estate:
    """A chain of tables under a name of its own, and what the webhook heard of them."""

    def __init__(self, tenant: Tenant, receiver: ReceiverProcess, length: int) -> None:
        self.tenant, self.receiver = tenant, receiver
        root = f"postgres://db-{uuid4().hex[:8]}/shop/public"
        self.tables = [f"{root}/t{number}" for number in range(length)]
        tenant.send(
            *(
                event("asset.upserted", {"qualified_name": name, "asset_type": "table"})
                for name in self.tables
            )
        )
        for up, down in zip(self.tables, self.tables[1:], strict=False):
            tenant.send(event("lineage.edge.added", {"upstream": up, "downstream": down}))

    def tag(self, name: str, *, attach: bool, tag: str = "PII") -> None:
        kind = "classification.attached" if attach else "classification.detached"
        self.tenant.send(event(kind, {"qualified_name": name, "tag": tag}))

    def heard(self, name: str) -> list[str]:
        """What the webhook was told of the asset's tag PII, in order."""
        bodies = [
            a.body for a in self.receiver.arrivals(self.tenant.path("travels")) if a.body["subject"] == name
        ]
        mine = [body for body in bodies if body["data"].get("tag") == "PII"]
        return [body["transition"] for body in {body["id"]: body for body in mine}.values()]

    def origins(self, name: str) -> list[dict[str, Any]]:
        answer = self.tenant.get(f"/v1/assets/{quote(name, safe='')}/tags", explain=True)
        return [origin for held in answer["tags"] if held["tag"] == "PII" for origin in held["origins"]]

    def wait(self, name: str, *told: str) -> None:
        until(lambda: self.heard(name) == list(told) or None, f"{told} of {name}, not {self.heard(name)}")


@pytest.fixture(scope="module")
def travelling(tenant: Tenant, receiver: ReceiverProcess) -> Tenant:
    path = tenant.path("travels")
    sink = {"kind": "webhook", "url": receiver.url(path)}
    answer = tenant.client.post("/v1/subscriptions", json={"name": "travels", "types": [], "sink": sink})
    assert answer.status_code == 201, answer.text
    receiver.tell(path, secret=answer.json()["secret"])
    answer = tenant.client.put("/v1/propagation/rules/personal-data", json=RULE)
    assert answer.status_code == 201, answer.text
    return tenant


def test_a_tag_travels_and_is_taken_back(travelling: Tenant, receiver: ReceiverProcess) -> None:
    estate = Estate(travelling, receiver, 5)
    first, *others = estate.tables
    estate.tag(first, attach=True)
    for name in others:
        estate.wait(name, "attached")
    [origin] = until(lambda: estate.origins(estate.tables[3]) or None)
    assert origin["origin_asset"] == first
    assert origin["rule"] == "personal-data"
    assert origin["path"] == estate.tables[:4]
    assert first in origin["because"]
    # A second origin in the middle keeps it alive below when the first is gone.
    estate.tag(estate.tables[2], attach=True)
    until(lambda: len(estate.origins(estate.tables[4])) == 2 or None)
    estate.tag(first, attach=False)
    estate.wait(estate.tables[1], "attached", "detached")
    until(lambda: len(estate.origins(estate.tables[4])) == 1 or None)
    estate.tag(estate.tables[2], attach=False)
    for name in others:
        estate.wait(name, "attached", "detached")


def test_edges_stop_tags_and_deletions_count(travelling: Tenant, receiver: ReceiverProcess) -> None:
    estate = Estate(travelling, receiver, 4)
    first, second, third, last = estate.tables
    estate.tag(first, attach=True)
    estate.wait(last, "attached")
    travelling.send(event("lineage.edge.removed", {"upstream": second, "downstream": third}))
    estate.wait(last, "attached", "detached")
    travelling.send(event("lineage.edge.added", {"upstream": first, "downstream": third}))
    estate.wait(last, "attached", "detached", "attached")
    estate.tag(third, attach=True, tag="Anonymised")
    estate.wait(last, "attached", "detached", "attached", "detached")
    estate.wait(third, "attached", "detached", "attached", "detached")
    travelling.send(event("asset.deleted", {"qualified_name": first}))
    estate.wait(second, "attached", "detached")


def test_a_preview_says_what_comes(travelling: Tenant, receiver: ReceiverProcess) -> None:
    estate = Estate(travelling, receiver, 3)
    change = {
        "type": "lily.classification.attached",
        "data": {"qualified_name": estate.tables[0], "tag": "PII"},
    }

    def ask() -> dict[str, Any] | None:
        answer = travelling.client.post("/v1/propagation/preview", json={"changes": [change]})
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told if told["attached"] == 2 else None

    told = until(ask)
    assert [each["qualified_name"] for each in told["changes"]] == estate.tables[1:]
    assert not any(map(estate.origins, estate.tables))
    wrong = {
        "changes": [{"type": "lily.classification.attached", "data": {"qualified_name": estate.tables[0]}}]
    }
    answer = travelling.client.post("/v1/propagation/preview", json=wrong)
    assert answer.status_code == 422
    assert "body.changes.0.data.tag" in answer.text


def test_a_killed_lake_job_loses_no_derived_tag(
    travelling: Tenant, receiver: ReceiverProcess, stack: Stack
) -> None:
    estate = Estate(travelling, receiver, 6)
    estate.tag(estate.tables[0], attach=True)
    stack.kill("lake")
    for name in estate.tables[1:]:
        estate.wait(name, "attached")
    estate.tag(estate.tables[0], attach=False)
    stack.kill("lake")
    for name in estate.tables[1:]:
        estate.wait(name, "attached", "detached")


def test_a_rule_that_goes_takes_back_what_it_caused(travelling: Tenant, receiver: ReceiverProcess) -> None:
    estate = Estate(travelling, receiver, 3)
    estate.tag(estate.tables[0], attach=True)
    estate.wait(estate.tables[2], "attached")
    assert travelling.client.delete("/v1/propagation/rules/personal-data").status_code == 204
    estate.wait(estate.tables[1], "attached", "detached")
    estate.wait(estate.tables[2], "attached", "detached")


def test_a_tag_by_looks_travels_too(travelling: Tenant, receiver: ReceiverProcess) -> None:
    """An enrichment rule gives a tag, propagation carries it, and both take it back."""
    assert travelling.client.put("/v1/propagation/rules/personal-data", json=RULE).is_success
    estate = Estate(travelling, receiver, 2)
    first, second = estate.tables
    rule = {"when": {"qualified_names": [f"{first}*"]}, "tags": ["PII"]}
    answer = travelling.client.put("/v1/enrichment/rules/by-looks", json=rule)
    assert answer.status_code == 201, answer.text
    for name in (first, second):
        estate.wait(name, "attached")
    [origin] = until(lambda: estate.origins(first) or None)
    assert (origin["origin_kind"], origin["origin"]) == ("rule", "enrichment:by-looks")
    assert travelling.client.delete("/v1/enrichment/rules/by-looks").status_code == 204
    for name in (first, second):
        estate.wait(name, "attached", "detached")
