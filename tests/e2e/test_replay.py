"""Playback on the real stack: what was sent comes again, in order, to one target, and nothing else is touched."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import orjson
import psycopg
import pytest
from deltalake import DeltaTable

from tests.support.poll import until
from tests.support.receiver import ReceiverProcess
from tests.support.stack import Stack
from tests.support.tenant import Tenant, event

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

Command = dict[str, Any]


def tags(prefix: str, count: int, assets: int = 6) -> list[dict[str, Any]]:
    """`count` tag events over some assets; every tag is attached and detached in turn."""
    made = []
    for number in range(count):
        kind = "attached" if (number // assets) % 2 == 0 else "detached"
        data = {"qualified_name": f"demo://{prefix}/t{number % assets}", "tag": "PII"}
        made.append(event(f"classification.{kind}", data))
    return made


def send(tenant: Tenant, stack: Stack, events: list[dict[str, Any]], batch: int = 20) -> None:
    """Accepted, and in bronze."""
    for start in range(0, len(events), batch):
        tenant.send(*events[start : start + batch])
    wanted = {item["id"] for item in events}

    def there() -> bool:
        return wanted <= {row["id"] for row in stack.lake.rows("bronze/events", tenant.id, ["id"])}

    until(there, "the events to be in bronze", pause=0.5)


def replay(tenant: Tenant, **args: Any) -> Command:
    answer = tenant.client.post("/v1/commands", json={"command": "replay", "args": args})
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


def ended(tenant: Tenant, command: Command, status: str = "succeeded") -> Command:
    def over() -> Command | None:
        found: Command = tenant.get(f"/v1/commands/{command['id']}")
        assert found["status"] not in ("failed",), found
        return found if found["status"] == status else None

    return until(over, f"the replay to be {status}", deadline=120, pause=0.3)


def on_topic(stack: Stack, tenant: Tenant, name: str, count: int) -> list[dict[str, Any]]:
    """What the replay topic holds, once `count` different events are there, in order within each partition."""
    topic = f"lily.{tenant.id}.replay.{name}"

    def read() -> list[dict[str, Any]] | None:
        try:
            found = [orjson.loads(message.value() or b"") for message in stack.log.read(topic)]
        except KeyError:
            return None
        return found if len({item["id"] for item in found}) >= count else None

    return until(read, f"{count} events on {topic}", deadline=60, pause=0.5)


def by_asset(events: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """Ids in order of their first coming, for each asset."""
    found: dict[str, list[str]] = defaultdict(list)
    for item in events:
        asset = item.get("subject") or item["data"]["qualified_name"]
        if item["id"] not in found[asset]:
            found[asset].append(item["id"])
    return dict(found)


def optimise(stack: Stack) -> DeltaTable:
    """Merge all of bronze's small files and delete the old ones at once, as a reader long after would find it."""
    table = stack.lake.table("bronze/events")
    table.optimize.compact()
    table.update_incremental()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    return table


def transition_state(stack: Stack, tenant: Tenant) -> list[Any]:
    with psycopg.connect(stack.environment["POSTGRES_URI"]) as connection:
        rows = connection.execute(
            "SELECT r.*, (SELECT count(*) FROM egress_seen s WHERE s.tenant = r.tenant) FROM egress_registers r "
            "WHERE tenant = %s ORDER BY asset, family, register",
            (tenant.id,),
        )
        return list(rows.fetchall())


def test_by_commit_and_by_time_after_optimize_and_vacuum(stack: Stack, tenant: Tenant) -> None:
    before, marked, after = tags("time", 30), tags("time", 60), tags("time", 30)
    send(tenant, stack, before)
    begin = datetime.now(UTC)
    send(tenant, stack, marked)
    end = datetime.now(UTC)
    send(tenant, stack, after)
    optimise(stack)
    first = tenant.get("/v1/history/commits", at=begin.isoformat())["found"]["commit"]
    last = tenant.get("/v1/history/commits", at=end.isoformat())["found"]["commit"] - 1
    by_time = replay(
        tenant, to_topic="by-time", rate=2000, **{"from": begin.isoformat(), "to": end.isoformat()}
    )
    by_commit = replay(tenant, to_topic="by-commit", rate=2000, **{"from": first, "to": last})
    for name, command in (("by-time", by_time), ("by-commit", by_commit)):
        detail = ended(tenant, command)["detail"]
        assert (detail["read"], detail["sent"]) == (60, 60)
        found = on_topic(stack, tenant, name, 60)
        assert by_asset(found) == by_asset(marked)
        assert {item["replayid"] for item in found} == {command["id"]}
        assert {item["transition"] for item in found} == {"replayed"}


def test_one_subscription_gets_it_and_nothing_else_changes(
    stack: Stack, tenant: Tenant, receiver: ReceiverProcess
) -> None:
    target = tenant.subscribe("target", receiver, types=["lily.classification.attached"])
    tenant.subscribe("bystander", receiver)
    sent = tags("one", 40, assets=4)
    send(tenant, stack, sent)

    def live() -> bool:
        return len(receiver.arrivals(tenant.path("bystander"))) >= 40

    until(live, "the live deliveries")
    until(lambda: len(receiver.arrivals(tenant.path("target"))) >= 20, "the live deliveries of the target")
    was, topic = transition_state(stack, tenant), stack.log.ends(f"lily.{tenant.id}.events")
    changes = [stack.log.ends(f"lily.changes.{lane}") for lane in ("priority", "bulk")]
    live_ids = {arrival.headers["webhook-id"] for arrival in receiver.arrivals(tenant.path("target"))}
    command = replay(tenant, to_subscription=target, assets=["demo://one/*"], rate=500)
    assert ended(tenant, command)["args"]["types"] == ["lily.classification.attached"]

    def again() -> list[Any] | None:
        found = [a for a in receiver.arrivals(tenant.path("target")) if "replayid" in a.body]
        return found if len(found) >= 20 else None

    replayed = until(again, "the replayed deliveries")
    attached = [item for item in sent if item["type"].endswith("attached")]
    assert by_asset(arrival.body for arrival in replayed) == by_asset(attached)
    assert all(arrival.valid for arrival in replayed)
    delivery_ids = {arrival.headers["webhook-id"] for arrival in replayed}
    assert len(delivery_ids) == 20
    assert not delivery_ids & live_ids
    listed = tenant.get("/v1/deliveries", replay_id=command["id"], limit=100)["items"]
    assert {row["id"] for row in listed} == delivery_ids
    assert {(row["replay_id"], row["transition"]) for row in listed} == {(command["id"], "replayed")}
    assert len(receiver.arrivals(tenant.path("bystander"))) == 40
    assert transition_state(stack, tenant) == was
    assert stack.log.ends(f"lily.{tenant.id}.events") == topic
    assert [stack.log.ends(f"lily.changes.{lane}") for lane in ("priority", "bulk")] == changes


def test_live_deliveries_overtake_a_long_replay_and_it_can_be_cancelled(
    stack: Stack, tenant: Tenant, receiver: ReceiverProcess
) -> None:
    target = tenant.subscribe("both", receiver)
    send(tenant, stack, tags("long", 60))
    command = replay(tenant, to_subscription=target, assets=["demo://long/*"], rate=2)

    def begun() -> bool:
        return any("replayid" in arrival.body for arrival in receiver.arrivals(tenant.path("both")))

    until(begun, "the replay to begin")
    fresh = tags("fresh", 6)
    tenant.send(*fresh)
    wanted = {item["id"] for item in fresh}

    def overtaken() -> bool:
        return wanted <= {arrival.body["id"] for arrival in receiver.arrivals(tenant.path("both"))}

    until(overtaken, "what is live, while the replay goes on", deadline=20)
    assert tenant.get(f"/v1/commands/{command['id']}")["status"] == "running"
    assert tenant.client.post(f"/v1/commands/{command['id']}/cancel").status_code == 200
    assert ended(tenant, command, "cancelled")["detail"]["sent"] < 60
    assert tenant.client.post(f"/v1/commands/{command['id']}/cancel").status_code == 409


def test_killed_in_the_middle_it_goes_on_and_loses_nothing(stack: Stack, tenant: Tenant) -> None:
    sent = tags("killed", 240)
    send(tenant, stack, sent, batch=60)
    started = time.monotonic()
    command = replay(tenant, to_topic="killed", assets=["demo://killed/*"], rate=12)

    def under_way() -> bool:
        detail = tenant.get(f"/v1/commands/{command['id']}")["detail"]
        return bool(detail) and detail["sent"] >= 24

    until(under_way, "the replay to be under way")
    stack.wait_restarted("lake", stack.kill("lake"))
    stack.wait_restarted("egress", stack.kill("egress"))
    detail = ended(tenant, command)["detail"]
    assert detail["sent"] >= 240
    assert time.monotonic() - started > 240 / 12 / 2, "the rate is held, roughly"
    found = on_topic(stack, tenant, "killed", 240)
    assert by_asset(found) == by_asset(sent)
    assert len(found) < 2 * 240, "it goes on where it was, about"


def test_a_tenant_replays_what_is_its_own(
    stack: Stack, tenant: Tenant, other: Tenant, receiver: ReceiverProcess
) -> None:
    theirs = other.subscribe("theirs", receiver)
    send(tenant, stack, tags("shared", 12))
    own = tags("shared", 6)
    send(other, stack, own)
    command = replay(other, to_topic="mine", assets=["demo://shared/*"], rate=1000)
    assert ended(other, command)["detail"]["sent"] == 6
    assert by_asset(on_topic(stack, other, "mine", 6)) == by_asset(own)
    assert tenant.client.get(f"/v1/commands/{command['id']}").status_code == 404
    assert tenant.client.post(f"/v1/commands/{command['id']}/cancel").status_code == 404
    answer = tenant.client.post(
        "/v1/commands", json={"command": "replay", "args": {"to_subscription": theirs}}
    )
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "body.args.to_subscription"
    mine = tenant.get("/v1/history/commits")
    assert mine["events"] == len(stack.lake.rows("bronze/events", tenant.id, ["id"]))


def managed(tenant: Tenant) -> str:
    return str(next(row["id"] for row in tenant.get("/v1/subscriptions")["items"] if row["managed"]))


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({}, "body.args"),
        ({"to_topic": "t", "to_subscription": "sub_1"}, "body.args"),
        ({"to_topic": "Not a name"}, "body.args.to_topic"),
        ({"to_topic": "t", "from": "yesterday"}, "body.args.from"),
        ({"to_topic": "t", "to": "2026-01-01"}, "body.args.to"),
        ({"to_topic": "t", "from": -4}, "body.args.from"),
        ({"to_topic": "t", "from": 9, "to": 8}, "body.args"),
        ({"to_topic": "t", "types": ["lily.nothing"]}, "body.args.types.0"),
        ({"to_topic": "t", "assets": ["a|b"]}, "body.args.assets.0"),
        ({"to_topic": "t", "rate": 0}, "body.args.rate"),
        ({"to_topic": "t", "speed": 3}, "body.args.speed"),
        ({"to_subscription": "sub_none"}, "body.args.to_subscription"),
    ],
)
def test_what_is_wrong_is_named(tenant: Tenant, args: dict[str, Any], field: str) -> None:
    answer = tenant.client.post("/v1/commands", json={"command": "replay", "args": args})
    assert answer.status_code == 422, answer.text
    assert field in {error["field"] for error in answer.json()["errors"]}


def test_the_live_topic_is_no_target(tenant: Tenant) -> None:
    args = {"to_subscription": managed(tenant)}
    answer = tenant.client.post("/v1/commands", json={"command": "replay", "args": args})
    assert answer.status_code == 422
    assert "to_topic" in answer.json()["detail"]


def test_lineage_as_it_was_and_who_said_what(stack: Stack, tenant: Tenant) -> None:
    def edge(kind: str, upstream: str, downstream: str) -> dict[str, Any]:
        return event(f"lineage.edge.{kind}", {"upstream": upstream, "downstream": downstream})

    names = [f"demo://past/{letter}" for letter in "abc"]
    a, b, c = names
    send(
        tenant,
        stack,
        [
            *(event("asset.upserted", {"qualified_name": n, "asset_type": "table"}) for n in names),
            edge("added", a, b),
            edge("added", b, c),
            event("classification.attached", {"qualified_name": a, "tag": "PII"}),
        ],
    )
    then = datetime.now(UTC)
    send(tenant, stack, [edge("removed", b, c), event("asset.deleted", {"qualified_name": a})])
    path = f"/v1/assets/{c.replace('/', '%2F')}/lineage"
    past = tenant.get(path, as_of=then.isoformat())
    assert {(e["upstream"], e["downstream"]) for e in past["edges"]} == {(a, b), (b, c)}
    assert [(n["qualified_name"], n["asset_type"], n["tags"]) for n in past["nodes"]] == [
        (c, "table", []),
        (b, "table", []),
        (a, "table", ["PII"]),
    ]
    assert tenant.get(path, as_of=datetime.now(UTC).isoformat())["edges"] == []
    wrong = tenant.client.get(path, params={"as_of": "then"})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "query.as_of")
    before = tenant.client.get(path, params={"as_of": "2020-01-01T00:00:00Z"})
    assert before.status_code == 404
    history = tenant.get(f"/v1/assets/{a.replace('/', '%2F')}/history")["items"]
    assert {row["accepted_by"].split(":")[0] for row in history} == {"key"}
    assert all(row["request_id"] for row in history)
