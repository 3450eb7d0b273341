"""Commands: the row, the message, and what the lake job says of it."""

import asyncio

import orjson

from lily_api.commands import results

COMMAND = {"command": "rebuild_mirror"}


async def test_a_command_is_sent_and_its_result_is_read(world):
    client, services = world.api.client, world.api.app.state.lily
    answer = await client.post("/v1/commands", json=COMMAND, headers=world.headers)
    assert (answer.status_code, answer.json()["status"]) == (202, "queued")
    created = answer.json()
    record = world.api.producer.records[-1]
    assert (record.topic, record.key) == ("lily.commands", world.tenant.encode())
    sent = orjson.loads(record.value)
    assert sent == {
        "id": created["id"],
        "tenant": world.tenant,
        "command": "rebuild_mirror",
        "args": {},
        "requested_by": created["requested_by"],
    }
    answer = await client.post("/v1/commands", json=COMMAND, headers=world.headers)
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:lily:problem:under-way")
    for status, detail in (("running", None), ("succeeded", {"assets": 3}), ("running", None)):
        message = orjson.dumps(sent | {"status": status, "detail": detail})
        await results._take(services, [_Message(message), _Message(b"{"), _Message(None)])
    read = (await world.get(f"/v1/commands/{created['id']}")).json()
    assert (read["status"], read["detail"]) == ("succeeded", {"assets": 3})
    listed = (await world.get("/v1/commands")).json()["items"]
    assert [found["id"] for found in listed] == [created["id"]]
    assert (await client.post("/v1/commands", json=COMMAND, headers=world.headers)).status_code == 202


class _Message:
    def __init__(self, value):
        self._value = value

    def value(self):
        return self._value


async def test_a_result_of_another_tenant_changes_nothing(world):
    answer = await world.api.client.post("/v1/commands", json=COMMAND, headers=world.headers)
    forged = {"id": answer.json()["id"], "tenant": await world.api.tenant(), "status": "failed"}
    await results._take(world.api.app.state.lily, [_Message(orjson.dumps(forged))])
    assert (await world.get(f"/v1/commands/{forged['id']}")).json()["status"] == "queued"


async def test_what_kafka_did_not_take_is_sent_later(world, monkeypatch):
    world.api.producer.broken = True
    answer = await world.api.client.post("/v1/commands", json=COMMAND, headers=world.headers)
    assert answer.status_code == 503
    (command,) = (await world.get("/v1/commands")).json()["items"]
    assert command["status"] == "accepted"
    world.api.producer.broken = False
    monkeypatch.setattr(results, "_REPUBLISH_AFTER", results.timedelta(0))
    await asyncio.sleep(0)
    await results._republish(world.api.app.state.lily)
    assert (await world.get(f"/v1/commands/{command['id']}")).json()["status"] == "queued"


async def test_who_may_ask_for_what(world):
    client, operator = world.api.client, world.api.operator(world.tenant)
    compact = {"command": "compact"}
    assert (await client.post("/v1/commands", json=compact, headers=world.headers)).status_code == 403
    assert (await client.post("/v1/commands", json=compact, headers=operator)).status_code == 202
    assert (await client.post("/v1/commands", json={"command": "drop"}, headers=operator)).status_code == 422
    stranger = await world.api.admin()
    command = (await client.post("/v1/commands", json=COMMAND, headers=world.headers)).json()
    assert (await client.get(f"/v1/commands/{command['id']}", headers=stranger)).status_code == 404
    reader = await world.api.key(world.tenant, "commands:read")
    headers = {"X-API-Key": reader["key"]}
    assert (await client.post("/v1/commands", json=COMMAND, headers=headers)).status_code == 403
