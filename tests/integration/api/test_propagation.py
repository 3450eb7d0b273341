"""`/v1/propagation`: rules, their way to Kafka, and previews that the lake job answers."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from tests.support.api import Api

from lily_api.commands import repository
from lily_api.propagation.schemas import EXAMPLE, EXAMPLE_YAML

PATH = "/v1/propagation/rules/personal-data"
ATTACH = {"type": "lily.classification.attached", "data": {"qualified_name": "db://h/t", "tag": "PII"}}


def published(api: Api, tenant: str) -> list[Any]:
    """What the topic was sent of the tenant's rule, oldest first."""
    key = f"{tenant}|personal-data".encode()
    sent = [one for one in api.producer.records if one.topic == "lily.propagation-rules" and one.key == key]
    return [orjson.loads(record.value) if record.value else None for record in sent]


async def test_declare_change_read_and_delete(api: Api) -> None:
    tenant = await api.tenant()
    headers = await api.admin(tenant)
    answer = await api.client.put(PATH, json=EXAMPLE, headers=headers)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert (made["version"], made["rule"]["max_depth"], made["rule"]["enabled"]) == (1, 20, True)
    assert published(api, tenant)[-1]["declaration"] == made["rule"]
    same = await api.client.put(PATH, json=EXAMPLE, headers=headers)
    assert (same.status_code, same.json()["version"]) == (200, 1)
    yaml = headers | {"Content-Type": "application/yaml"}
    changed = await api.client.put(PATH, content=EXAMPLE_YAML + "max_depth: 3\n", headers=yaml)
    assert (changed.json()["version"], changed.json()["rule"]["max_depth"]) == (2, 3)
    assert (await api.client.get(PATH, headers=headers)).json() == changed.json()
    assert (await api.client.delete(PATH, headers=headers)).status_code == 204
    assert published(api, tenant)[-1] is None
    assert (await api.client.get(PATH, headers=headers)).status_code == 404
    assert (await api.client.delete(PATH, headers=headers)).status_code == 404
    again = await api.client.put(PATH, json=EXAMPLE, headers=headers)
    assert (again.status_code, again.json()["version"]) == (201, 4)
    audit = (await api.client.get("/v1/audit", headers=headers)).json()["items"]
    assert {f"propagation-rule.{what}" for what in ("create", "update", "delete")} <= {
        entry["action"] for entry in audit
    }


async def test_pages_and_tenants(api: Api) -> None:
    headers, others = await api.admin(), await api.admin(await api.tenant())
    for name in ("zeta", "alpha", "midway"):
        path = f"/v1/propagation/rules/{name}"
        assert (await api.client.put(path, json=EXAMPLE, headers=headers)).status_code == 201
    first = (await api.client.get("/v1/propagation/rules", params={"limit": 2}, headers=headers)).json()
    params = {"limit": 2, "cursor": first["next_cursor"]}
    second = (await api.client.get("/v1/propagation/rules", params=params, headers=headers)).json()
    names = [rule["name"] for rule in (*first["items"], *second["items"])]
    assert (names, second["next_cursor"]) == (["alpha", "midway", "zeta"], None)
    assert (await api.client.get("/v1/propagation/rules", headers=others)).json()["items"] == []
    assert (await api.client.get("/v1/propagation/rules/alpha", headers=others)).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body.classifications"),
        ({"classifications": ["PII"], "property": "owners"}, "body.classifications"),
        ({"classifications": []}, "body.classifications"),
        ({"classifications": ["a|b"]}, "body.classifications.0"),
        ({"property": "name"}, "body.property"),
        ({"classifications": ["PII"], "along": ["table", "table"]}, "body.along"),
        ({"classifications": ["PII"], "along": ["sideways"]}, "body.along.0"),
        ({"classifications": ["PII"], "max_depth": 51}, "body.max_depth"),
        ({"classifications": ["PII"], "through": ["teapot"]}, "body.through.0"),
        ({"classifications": ["PII"], "depth": 2}, "body.depth"),
        ({"classifications": ["PII"], "name": "another"}, "body.name"),
    ],
)
async def test_wrong_rules_are_told_by_field(api: Api, body: dict[str, Any], field: str) -> None:
    answer = await api.client.put(PATH, json=body, headers=await api.admin())
    assert answer.status_code == 422
    assert field in [error["field"] for error in answer.json()["errors"]]


async def test_a_property_has_one_rule(api: Api) -> None:
    headers = await api.admin()
    body = {"property": "owners"}
    assert (await api.client.put(PATH, json=body, headers=headers)).status_code == 201
    assert (await api.client.put(PATH, json=body, headers=headers)).status_code == 200
    answer = await api.client.put("/v1/propagation/rules/second", json=body, headers=headers)
    assert answer.status_code == 409
    assert answer.json()["type"].endswith("property-taken")


async def test_a_preview_is_asked_and_answered(api: Api) -> None:
    tenant = await api.tenant()
    headers = await api.admin(tenant)
    asking = asyncio.create_task(
        api.client.post("/v1/propagation/preview", json={"changes": [ATTACH]}, headers=headers)
    )
    detail = {"attached": 0, "detached": 0, "assets": 0, "changes": []}

    def command() -> Any:
        sent = [orjson.loads(one.value) for one in api.producer.records if one.topic == "lily.commands"]
        return next((one for one in sent if one["tenant"] == tenant), None)

    while command() is None:
        await asyncio.sleep(0.02)
    asked = command()
    assert (asked["command"], asked["args"]) == ("preview_propagation", {"changes": [ATTACH], "rule": None})
    async with api.app.state.lily.db.begin() as session:
        await repository.advance(session, tenant, asked["id"], "succeeded", detail)
    answer = await asking
    assert (answer.status_code, answer.json()) == (200, detail)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body.changes"),
        ({"changes": [{"type": "lily.nothing", "data": {}}]}, "body.changes.0.type"),
        ({"changes": [ATTACH, {**ATTACH, "data": {"tag": "PII"}}]}, "body.changes.1.data.qualified_name"),
    ],
)
async def test_wrong_previews_are_told_by_field(api: Api, body: dict[str, Any], field: str) -> None:
    answer = await api.client.post("/v1/propagation/preview", json=body, headers=await api.admin())
    assert answer.status_code == 422
    assert field in [error["field"] for error in answer.json()["errors"]]
