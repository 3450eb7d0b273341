"""`/v1/policies` and `/v1/mappings`: declared, versioned, audited, decided by, and refused by field."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.api import Api, bearer

from lily_api.enforcement.mappings import EXAMPLE as MAPPING
from lily_api.enforcement.mappings import EXAMPLE_YAML as MAPPING_YAML
from lily_api.policies.schemas import EXAMPLE, EXAMPLE_YAML

POLICY = "/v1/policies/mask-personal-data"
SHOP = "/v1/mappings/shop"


@pytest.mark.parametrize(
    ("path", "example", "text", "kind"),
    [(POLICY, EXAMPLE, EXAMPLE_YAML, "policy"), (SHOP, MAPPING, MAPPING_YAML, "mapping")],
)
async def test_declare_change_read_and_delete(
    api: Api, path: str, example: dict[str, Any], text: str, kind: str
) -> None:
    headers = await api.admin()
    answer = await api.client.put(path, json=example, headers=headers)
    assert (answer.status_code, answer.json()["version"]) == (201, 1), answer.text
    same = await api.client.put(path, json=example, headers=headers)
    assert (same.status_code, same.json()["version"]) == (200, 1)
    yaml = headers | {"Content-Type": "application/yaml"}
    changed = await api.client.put(path, content=text + "description: another\n", headers=yaml)
    assert (changed.status_code, changed.json()["version"]) == (200, 2), changed.text
    assert changed.json()[kind]["description"] == "another"
    assert (await api.client.get(path, headers=headers)).json() == changed.json()
    listed = (await api.client.get(path.rpartition("/")[0], headers=headers)).json()
    assert listed["items"] == [changed.json()]
    others = await api.admin(await api.tenant())
    assert (await api.client.get(path, headers=others)).status_code == 404
    assert (await api.client.delete(path, headers=others)).status_code == 404
    assert (await api.client.delete(path, headers=headers)).status_code == 204
    assert (await api.client.get(path, headers=headers)).status_code == 404
    audit = (await api.client.get("/v1/audit", headers=headers)).json()["items"]
    actions = [entry["action"] for entry in audit if entry["action"].startswith(kind)]
    assert actions == [f"{kind}.delete", f"{kind}.update", f"{kind}.create"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (POLICY, {"action": "mask"}, "body.tags"),
        (POLICY, {"tags": [], "action": "mask"}, "body.tags"),
        (POLICY, {"tags": ["PII"], "action": "hide"}, "body.action"),
        (POLICY, {"tags": ["PII"], "action": "deny", "mask": {"kind": "hash"}}, "body.mask"),
        (POLICY, {"tags": ["PII"], "action": "filter"}, "body.filter"),
        (
            POLICY,
            {"tags": ["PII"], "action": "mask", "mask": {"kind": "sql", "expression": "1"}},
            "body.mask.expression",
        ),
        (POLICY, {"tags": ["PII"], "action": "mask", "mask": {"kind": "constant"}}, "body.mask.constant"),
        (POLICY, {"tags": ["PII"], "action": "filter", "filter": "1; DROP TABLE t"}, "body.filter"),
        (SHOP, {"table": "lake.shop", "asset": "a"}, "body.table"),
        (SHOP, {"table": "lake.shop.{t}", "asset": "db://h/{x}"}, "body.asset"),
        (SHOP, {"table": "lake.{t}.{t}", "asset": "db://h/{t}"}, "body.table"),
        (SHOP, {**MAPPING, "writes": "perhaps"}, "body.writes"),
        (SHOP, {**MAPPING, "when_stale": "ajar"}, "body.when_stale"),
    ],
)
async def test_what_is_wrong_is_told_by_field(api: Api, path: str, body: dict[str, Any], field: str) -> None:
    answer = await api.client.put(path, json=body, headers=await api.admin())
    assert answer.status_code == 422
    assert field in [error["field"] for error in answer.json()["errors"]], answer.text


async def test_a_decision_and_why(api: Api) -> None:
    headers = await api.admin()
    assert (await api.client.put(POLICY, json=EXAMPLE, headers=headers)).status_code == 201
    dry = {"tags": ["PII"], "action": "deny", "mode": "dry_run"}
    assert (await api.client.put("/v1/policies/strict", json=dry, headers=headers)).status_code == 201

    async def decide(**body: Any) -> Any:
        answer = await api.client.post("/v1/policies/decide", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    told = await decide(tags=["PII"], user="ann", groups=["analysts"])
    assert (told["action"], told["mask"]["kind"]) == ("mask", "hash")
    assert [(one["policy"], one["tag"], one["decisive"]) for one in told["reasons"]] == [
        ("mask-personal-data", "PII", True)
    ]
    assert [one["policy"] for one in told["would"]] == ["strict"]
    assert (await decide(tags=["PII"], user="bo", groups=["stewards"]))["action"] == "allow"
    assert (await decide(tags=["Other"], user="ann"))["reasons"] == []
    supposed = {"name": "x", "tags": ["PII"], "action": "deny", "precedence": 1}
    assert (await decide(tags=["PII"], user="ann", suppose=[supposed]))["action"] == "deny"
    nothing = await api.client.post("/v1/policies/decide", json={"user": "ann"}, headers=headers)
    assert nothing.status_code == 422


async def test_a_key_needs_the_scope(api: Api) -> None:
    tenant = await api.tenant()
    reader = bearer((await api.key(tenant, "policies:read"))["key"])
    assert (await api.client.put(POLICY, json=EXAMPLE, headers=reader)).status_code == 403
    asked = {"input": {"context": {"identity": {"user": "ann"}}, "action": {"operation": "ExecuteQuery"}}}
    assert (await api.client.post("/v1/opa/trino/allow", json=asked, headers=reader)).status_code == 403
    key = (await api.key(tenant, "policies:enforce"))["key"]
    enforcer = bearer(key)
    allowed = await api.client.post("/v1/opa/trino/allow", json=asked, headers=enforcer)
    assert (allowed.status_code, allowed.json()) == (200, {"result": True})
    allowed = await api.client.post("/v1/opa/trino/allow", params={"key": key}, json=asked)
    assert (allowed.status_code, allowed.json()) == (200, {"result": True})
    assert (await api.client.post("/v1/opa/trino/allow", params={"key": "x"}, json=asked)).status_code == 401
    assert (await api.client.post("/v1/opa/trino/allow", json=asked)).status_code == 401
    assert (await api.client.get(POLICY, headers=enforcer)).status_code == 403
