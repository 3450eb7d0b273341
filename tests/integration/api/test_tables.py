"""`/v1/tables`: declarations, their way to Kafka, what the lake job says of refreshes, and commands on tables."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.support.api import Api

from lily_api.tables import results
from lily_api.tables.schemas import EXAMPLE, EXAMPLE_YAML

PATH = "/v1/tables/bills_extended"


class Message:
    def __init__(self, value: bytes | None) -> None:
        self._value = value

    def value(self) -> bytes | None:
        return self._value


def published(api: Api, tenant: str) -> list[Any]:
    """What the topic was sent of the tenant's table, oldest first."""
    key = f"{tenant}|bills_extended".encode()
    sent = [record for record in api.producer.records if record.topic == "lily.tables" and record.key == key]
    return [orjson.loads(record.value) if record.value else None for record in sent]


async def test_declare_change_read_and_delete(api: Api) -> None:
    tenant = await api.tenant()
    headers = await api.admin(tenant)
    answer = await api.client.put(PATH, json=EXAMPLE, headers=headers)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert (made["builtin"], made["last_refresh"], made["declaration"]["interval"]) == (False, None, 60)
    assert made["declaration"]["fact"]["as"] == "bills"
    assert published(api, tenant)[-1]["declaration"] == made["declaration"]
    read = (await api.client.get(PATH, headers=headers)).json()["declaration"]
    assert list(read["select"]) == list(EXAMPLE["select"]), (
        "columns stand in the order in which they were declared"
    )
    again = await api.client.put(
        PATH, content=EXAMPLE_YAML, headers=headers | {"Content-Type": "application/yaml"}
    )
    assert again.status_code == 200, again.text
    assert "payment_id" not in again.json()["declaration"]["select"]
    listed = (await api.client.get("/v1/tables", headers=headers)).json()["items"]
    assert [table["name"] for table in listed] == ["asset_overview", "tag_coverage", "bills_extended"]
    assert (await api.client.delete(PATH, headers=headers)).status_code == 204
    assert published(api, tenant)[-1] is None
    dropped = [orjson.loads(one.value) for one in api.producer.records if one.topic == "lily.commands"]
    assert (dropped[-1]["command"], dropped[-1]["args"]) == ("drop_table", {"table": "bills_extended"})
    assert (await api.client.get(PATH, headers=headers)).status_code == 404
    assert (await api.client.delete(PATH, headers=headers)).status_code == 404
    audit = (await api.client.get("/v1/audit", headers=headers)).json()["items"]
    assert {"table.create", "table.update", "table.delete"} <= {entry["action"] for entry in audit}


async def test_pages(api: Api) -> None:
    headers = await api.admin()
    for name in ("zeta", "alpha", "midway"):
        assert (await api.client.put(f"/v1/tables/{name}", json=EXAMPLE, headers=headers)).status_code == 201
    seen: list[str] = []
    cursor = None
    while True:
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await api.client.get("/v1/tables", params=params, headers=headers)).json()
        seen += [table["name"] for table in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == ["asset_overview", "tag_coverage", "alpha", "midway", "zeta"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (EXAMPLE | {"key": ["payment_id"]}, "body.key"),
        (EXAMPLE | {"select": {"bill_id": "bills.id", "x": "reflect('a', 'b')"}}, "body.select.x"),
        (EXAMPLE | {"fact": "cdc.shop.public.bills", "name": "other"}, "body.name"),
        ([], "body"),
    ],
)
async def test_errors_name_the_field(api: Api, body: Any, field: str) -> None:
    answer = await api.client.put(PATH, json=body, headers=await api.admin())
    assert answer.status_code == 422, answer.text
    assert field in [error["field"] for error in answer.json()["errors"]]


async def test_what_is_no_declaration(api: Api) -> None:
    headers = await api.admin()
    for content, kind, status in (
        (b"{", "application/json", 400),
        (b"a: [", "application/yaml", 400),
        (b"x", "text/plain", 415),
    ):
        answer = await api.client.put(PATH, content=content, headers=headers | {"Content-Type": kind})
        assert answer.status_code == status, answer.text


async def test_built_in_tables_stay_as_they_are(api: Api) -> None:
    headers = await api.admin()
    path = "/v1/tables/asset_overview"
    assert (await api.client.get(path, headers=headers)).json()["builtin"] is True
    assert (await api.client.put(path, json=EXAMPLE, headers=headers)).status_code == 422
    assert (await api.client.delete(path, headers=headers)).status_code == 403


async def test_scopes(api: Api) -> None:
    tenant = await api.tenant()
    reader = {"X-API-Key": (await api.key(tenant, "tables:read"))["key"]}
    assert (await api.client.get("/v1/tables", headers=reader)).status_code == 200
    assert (await api.client.put(PATH, json=EXAMPLE, headers=reader)).status_code == 403


async def test_what_kafka_did_not_take_is_sent_later(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = await api.tenant()
    headers = await api.admin(tenant)
    monkeypatch.setattr(results, "_REPUBLISH_AFTER", results.timedelta(0))
    api.producer.broken = True
    assert (await api.client.put(PATH, json=EXAMPLE, headers=headers)).status_code == 503
    assert published(api, tenant) == []
    api.producer.broken = False
    await results._republish(api.app.state.lily)
    assert len(published(api, tenant)) == 1
    await results._republish(api.app.state.lily)
    assert len(published(api, tenant)) == 1
    api.producer.broken = True
    assert (await api.client.delete(PATH, headers=headers)).status_code == 503
    assert (await api.client.get(PATH, headers=headers)).status_code == 404
    api.producer.broken = False
    await results._republish(api.app.state.lily)
    assert published(api, tenant)[-1] is None
    assert (await api.client.put(PATH, json=EXAMPLE, headers=headers)).status_code == 201


async def test_refreshes_are_shown(api: Api) -> None:
    tenant = await api.tenant()
    headers = await api.admin(tenant)
    await api.client.put(PATH, json=EXAMPLE, headers=headers)
    said = {
        "tenant": tenant,
        "table": "bills_extended",
        "status": "succeeded",
        "at": "2026-01-02T10:00:00+00:00",
        "detail": {"mode": "incremental", "upserted": 3},
    }
    older = said | {"at": "2026-01-02T09:00:00+00:00", "status": "failed", "detail": {"error": "x"}}
    builtin = said | {"tenant": "*", "table": "asset_overview", "detail": {"mode": "full", "rows": 9}}
    unknown = said | {"table": "nothing"}
    messages = [Message(orjson.dumps(one)) for one in (said, older, builtin, unknown)]
    await results._take(api.app.state.lily, [*messages, Message(b"{"), Message(None)])
    shown = (await api.client.get(PATH, headers=headers)).json()["last_refresh"]
    assert (shown["status"], shown["detail"]["upserted"]) == ("succeeded", 3)
    shown = (await api.client.get("/v1/tables/asset_overview", headers=headers)).json()["last_refresh"]
    assert shown["detail"] == {"mode": "full"}, "how many rows there are of all tenants is nobody's business"


async def test_commands_on_tables(api: Api) -> None:
    tenant = await api.tenant()
    headers = await api.admin(tenant)
    await api.client.put(PATH, json=EXAMPLE, headers=headers)

    async def send(command: str, **args: Any) -> Any:
        return await api.client.post("/v1/commands", json={"command": command, "args": args}, headers=headers)

    answer = await send("refresh_table", table="bills_extended")
    assert (answer.status_code, answer.json()["args"]) == (202, {"table": "bills_extended", "full": False})
    assert (await send("refresh_table", table="bills_extended")).status_code == 409
    assert (await send("refresh_table", table="bills_extended", full=True)).status_code == 202
    assert (await send("check_table", table="asset_overview")).status_code == 202
    for args, field in (
        ({}, "body.args.table"),
        ({"table": "nothing"}, "body.args.table"),
        ({"table": "bills_extended", "full": "maybe"}, "body.args.full"),
        ({"table": "bills_extended", "x": 1}, "body.args.x"),
    ):
        answer = await send("refresh_table", **args)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
    assert (await send("rebuild_mirror", table="x")).status_code == 422
    assert (await send("drop_table", table="bills_extended")).status_code == 422
