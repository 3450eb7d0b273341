"""PostgreSQL's change data: snapshot, then stream, in the form that the lake reads."""

from __future__ import annotations

import base64
import json
import os
import secrets
from pathlib import Path
from typing import Any

import pytest
from tests.integration.connect.changes import Change, wait_for
from tests.support.databases import Database, Sources
from tests.support.poll import until
from tests.support.stack import Stack

pytestmark = pytest.mark.stack
EXAMPLES = Path(__file__).resolve().parents[3] / "contracts" / "examples" / "cdc"

ORDERS = """
CREATE TABLE orders (
  id bigint PRIMARY KEY, state text NOT NULL, amount numeric(12,2), note text, at timestamptz, tags text[])
"""


def topic(sources: Sources, table: str = "public.orders") -> str:
    return f"cdc.{sources.tenant.id}.shop.{table}"


def keep(name: str, change: Change, sources: Sources, database: Database) -> None:
    """With LILY_UPDATE_FIXTURES=1: write the message as an example, under names that mean nothing."""
    if os.environ.get("LILY_UPDATE_FIXTURES"):
        text = json.dumps(change.document(), indent=1, ensure_ascii=False)
        text = text.replace(sources.tenant.id, "acme").replace(database.name, "shop")
        EXAMPLES.mkdir(parents=True, exist_ok=True)
        (EXAMPLES / f"{name}.json").write_text(text + "\n")


def has(*operations: str) -> Any:
    """Whether each of the operations has come, as often as it is named."""

    def enough(found: list[Change]) -> bool:
        held = [one.op for one in found]
        return all(held.count(operation) >= operations.count(operation) for operation in operations)

    return enough


def test_snapshot_then_stream(worker: Stack, sources: Sources, database: Database) -> None:
    database.run(ORDERS)
    large = secrets.token_hex(1500)
    database.run(
        "INSERT INTO orders VALUES (1, 'new', 12.34, %s, '2026-01-15T18:10:00.123456Z', '{a,b}')", large
    )
    database.run("INSERT INTO orders VALUES (2, 'new', -0.01, 'short', NULL, NULL)")
    connector = sources.postgres(database, "public.orders")
    running = sources.wait(connector, "running")
    assert running["settled"]
    assert running["problem"] is None

    snapshot = wait_for(worker, topic(sources), has("r", "r"), "the snapshot")
    assert {one.id for one in snapshot} == {1, 2}
    first = next(one for one in snapshot if one.id == 1)
    assert first.after["at"] == "2026-01-15T18:10:00.123456Z"
    assert first.after["tags"] == ["a", "b"]
    assert int.from_bytes(base64.b64decode(first.after["amount"]), "big", signed=True) == 1234

    database.run("INSERT INTO orders VALUES (3, 'new', 1, NULL, NULL, NULL)")
    database.run("UPDATE orders SET state = 'paid' WHERE id = 1")
    database.run("UPDATE orders SET id = 4 WHERE id = 2")
    database.run("DELETE FROM orders WHERE id = 3")
    streamed = wait_for(worker, topic(sources), has("c", "c", "u", "d", "d", "tombstone"), "the stream")
    inserted = next(one for one in streamed if one.op == "c" and one.id == 3)
    updated = next(one for one in streamed if one.op == "u")
    deleted = next(one for one in streamed if one.op == "d" and one.id == 3)
    tombstone = next(one for one in streamed if one.op == "tombstone" and one.id == 3)
    assert updated.after["state"] == "paid"
    assert updated.after["note"] == "__debezium_unavailable_value"
    assert deleted.offset < tombstone.offset
    assert any(one.op == "c" and one.id == 4 for one in streamed), "a changed key is a delete and an insert"

    database.run("TRUNCATE orders")
    ended = wait_for(worker, topic(sources), has("t"), "the truncation")
    truncated = next(one for one in ended if one.op == "t")
    assert truncated.key is None
    named = {"snapshot": first, "insert": inserted, "update-unchanged-toast": updated, "delete": deleted}
    for name, change in named.items():
        assert change.value is not None
        position = change.value["payload"]["source"]
        assert isinstance(position["lsn"], int)
        assert (position["schema"], position["table"]) == ("public", "orders")
        fields = {field["field"]: field for field in change.value["schema"]["fields"]}
        columns = {field["field"]: field for field in fields["after"]["fields"]}
        assert columns["amount"]["name"] == "org.apache.kafka.connect.data.Decimal"
        assert columns["amount"]["parameters"]["scale"] == "2"
        keep(name, change, sources, database)
    keep("tombstone", tombstone, sources, database)
    keep("truncate", truncated, sources, database)
    assert sources.status(connector)["topics"] == [topic(sources)]


def test_the_form_of_an_update(worker: Stack, sources: Sources, database: Database) -> None:
    """Columns come and types widen while it runs; values of many types."""
    database.run(
        "CREATE TABLE things (id int PRIMARY KEY, small smallint, flag boolean, day date, raw bytea, doc jsonb)"
    )
    database.run("INSERT INTO things (id) VALUES (0)")
    sources.postgres(database, "public.things")
    things = topic(sources, "public.things")
    wait_for(worker, things, has("r"), "the snapshot")
    database.run("""INSERT INTO things VALUES (1, 7, true, '2026-01-15', '\\x00ff', '{"a": 1}')""")
    wait_for(worker, things, has("c"), "the insert")
    database.run("ALTER TABLE things ALTER small TYPE int")
    database.run("ALTER TABLE things ADD added text")
    database.run("UPDATE things SET small = 70000, added = 'x' WHERE id = 1")
    found = [one for one in wait_for(worker, things, has("c", "u"), "the update") if one.id == 1]
    before, after = found
    assert before.after == {
        "id": 1,
        "small": 7,
        "flag": True,
        "day": 20468,
        "raw": "AP8=",
        "doc": '{"a": 1}',
    }
    assert (after.after["small"], after.after["added"]) == (70000, "x")
    keep("insert-many-types", before, sources, database)
    keep("update-column-added-and-type-widened", after, sources, database)


def test_columns_that_changed_behind_the_log_do_not_bring_the_server_down(
    worker: Stack, sources: Sources, database: Database
) -> None:
    """Debezium starts where rows, a changed column type and rows again wait in the log."""
    database.run(
        "CREATE TABLE things (id int PRIMARY KEY, small smallint, flag boolean, raw bytea, doc jsonb)"
    )
    database.run("INSERT INTO things (id) VALUES (0)")
    connector = sources.postgres(database, "public.things")
    things = topic(sources, "public.things")
    wait_for(worker, things, has("r"), "the snapshot")
    sources.patch(connector, status="paused")
    sources.wait(connector, "paused")
    [name] = sources.on_connect()
    assert sources.connect.put(f"/connectors/{name}/stop").status_code == 204
    until(lambda: not sources.connect.get(f"/connectors/{name}/status").json()["tasks"], "the tasks to end")
    database.run("""INSERT INTO things VALUES (1, 7, true, '\\x00ff', '{"a": 1}')""")
    database.run("ALTER TABLE things ALTER small TYPE int")
    database.run("UPDATE things SET small = 70000 WHERE id = 1")
    began = database.run("SELECT pg_postmaster_start_time(), pg_conf_load_time()")
    sources.patch(connector, status="active")
    found = wait_for(worker, things, has("c", "u"), "what waited in the log")
    assert [one.after["small"] for one in found if one.id == 1] == [7, 70000]
    assert database.run("SELECT pg_postmaster_start_time(), pg_conf_load_time()") == began
    crashes = worker.config.log_file("postgres").read_text(errors="replace").count("terminated by signal")
    assert crashes == 0


def test_a_table_made_later_in_a_schema_is_read_whole(
    worker: Stack, sources: Sources, database: Database
) -> None:
    database.run("CREATE SCHEMA billing")
    database.run("CREATE TABLE billing.bills (id bigint PRIMARY KEY)")
    connector = sources.postgres(database, "billing.*", "public.nothing")
    wait_state = sources.wait(connector, "retrying", tasks="running")
    assert wait_state["problem"] == "not in the database: public.nothing"
    database.run("CREATE TABLE billing.refunds (id bigint PRIMARY KEY)")
    database.run("INSERT INTO billing.refunds VALUES (1)")
    wait_for(
        worker, topic(sources, "billing.refunds"), lambda found: [one.id for one in found] == [1], "the row"
    )


def test_pause_and_resume_lose_nothing(worker: Stack, sources: Sources, database: Database) -> None:
    database.run(ORDERS)
    connector = sources.postgres(database, "public.orders")
    sources.wait(connector, "running")
    assert sources.patch(connector, status="paused")["status"] == "paused"
    assert sources.wait(connector, "paused")["wanted"] == "paused"
    database.run("INSERT INTO orders SELECT n, 'new', n, NULL, NULL, NULL FROM generate_series(1, 500) n")
    assert sources.patch(connector, status="active")["status"] == "active"
    sources.wait(connector, "running")
    found = wait_for(worker, topic(sources), lambda found: len(found) >= 500, "what came while it was paused")
    assert sorted(one.id for one in found) == list(range(1, 501))


def test_a_wrong_password_is_told_and_put_right(worker: Stack, sources: Sources, database: Database) -> None:
    database.run(ORDERS)
    connector = sources.postgres(database, "public.orders", password="not-the-password")
    status = sources.status(connector)
    assert not status["settled"]
    assert "password authentication failed" in status["problem"]
    assert "not-the-password" not in json.dumps(status)
    shown = sources.tenant.get(f"/v1/connectors/{connector}")
    assert shown["config"]["password"] == "**********"

    config = {**shown["config"], "password": database.password}
    assert database.password not in json.dumps(sources.patch(connector, config=config))
    sources.wait(connector, "running")
    # What is read back may be sent back: the mask keeps the password.
    masked = sources.tenant.get(f"/v1/connectors/{connector}")["config"]
    sources.patch(connector, config=masked)
    sources.wait(connector, "running")


def test_a_task_that_fails_is_told_and_started_again(
    worker: Stack, sources: Sources, database: Database
) -> None:
    database.run(ORDERS)
    connector = sources.postgres(database, "public.orders")
    sources.wait(connector, "running")
    database.set_password("changed")
    sources.connect.post(f"/connectors/{sources.on_connect()[0]}/restart?includeTasks=true")

    def failed() -> dict[str, Any]:
        found = sources.status(connector)
        assert found["problem"], found
        return found

    status = until(failed, "the failure to be told")
    assert "password authentication failed" in status["problem"]
    assert "\tat " not in json.dumps(status)
    database.set_password(database.password)
    sources.wait(connector, "running")


def test_the_password_is_in_no_topic_of_connect(worker: Stack, sources: Sources, database: Database) -> None:
    database.run(ORDERS)
    sources.wait(sources.postgres(database, "public.orders"), "running")
    written = b"".join(message.value() or b"" for message in worker.log.read("lily.connect.configs"))
    assert sources.tenant.id.encode() in written
    assert database.password.encode() not in written
    assert database.password not in worker.config.log_file("connect").read_text(errors="replace")
    assert database.password not in worker.config.log_file("api").read_text(errors="replace")


def test_removed_from_connect_and_database_and_made_again(
    worker: Stack, sources: Sources, database: Database
) -> None:
    database.run(ORDERS)
    database.run("INSERT INTO orders VALUES (1, 'new', 1, NULL, NULL, NULL)")
    mirror = {"public.orders": {"columns": ["state"], "ttl_days": 3}}
    connector = sources.postgres(database, "public.orders", mirror=mirror)
    sources.wait(connector, "running")
    wait_for(worker, topic(sources), has("r"), "the snapshot")
    assert len(database.slots()) == len(database.publications()) == 1
    assert policy(worker, sources) == {
        "tenant": sources.tenant.id,
        "source": "shop",
        "connector_id": connector,
        "kind": "debezium-postgres",
        "namespace": f"postgres://127.0.0.1:{database.port}",
        "database": database.name,
        "mirror": mirror,
    }

    answer = sources.delete(connector)
    assert (answer.status_code, answer.json()["removed"]) == (200, True), answer.text
    assert sources.on_connect() == []
    assert database.slots() == database.publications() == []
    assert policy(worker, sources) is None
    assert not list(worker.config.connect_secrets.glob(f"{connector}.*"))
    assert sources.tenant.client.get(f"/v1/connectors/{connector}/status").status_code == 404

    again = sources.postgres(database, "public.orders")
    sources.wait(again, "running")
    wait_for(worker, topic(sources), has("r", "r"), "the snapshot to be taken again")


def test_a_database_that_is_gone_leaves_words(worker: Stack, sources: Sources, database: Database) -> None:
    database.run(ORDERS)
    connector = sources.postgres(database, "public.orders")
    sources.wait(connector, "running")
    [slot] = database.slots()
    database.set_password("changed")
    answer = sources.delete(connector).json()
    assert not answer["removed"]
    assert f"SELECT pg_drop_replication_slot('{slot}')" in answer["detail"]
    assert sources.on_connect() == []
    taken = sources.tenant.client.post(
        "/v1/connectors",
        json={"kind": "debezium-postgres", "name": "again", "config": config_of(database)},
    )
    assert (taken.status_code, taken.json()["type"]) == (409, "urn:lily:problem:source-taken")
    database.set_password(database.password)
    until(lambda: not database.slots(), "the slot to be dropped after all")


def test_new_tables_are_read_whole(worker: Stack, sources: Sources, database: Database) -> None:
    database.run(ORDERS)
    database.run("CREATE TABLE bills (id bigint PRIMARY KEY, total numeric(12,2))")
    database.run("INSERT INTO bills VALUES (7, 70)")
    connector = sources.postgres(database, "public.orders")
    sources.wait(connector, "running")
    config = sources.tenant.get(f"/v1/connectors/{connector}")["config"]
    sources.patch(connector, config=config | {"tables": ["public.orders", "public.bills"]})
    sources.wait(connector, "running")
    wait_for(worker, topic(sources, "public.bills"), has("r"), "the new table's snapshot")
    database.run("INSERT INTO bills VALUES (8, 80)")
    found = wait_for(worker, topic(sources, "public.bills"), has("r", "c"), "the new table's stream")
    assert [one.id for one in sorted(found, key=lambda one: one.id)] == [7, 8]


def test_what_cannot_be_changed(worker: Stack, sources: Sources, database: Database) -> None:
    database.run(ORDERS)
    connector = sources.postgres(database, "public.orders")
    config = sources.tenant.get(f"/v1/connectors/{connector}")["config"]
    for change in ({"source": "other"}, {"database": "other"}):
        answer = sources.tenant.client.patch(f"/v1/connectors/{connector}", json={"config": config | change})
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["field"] == f"body.config.{next(iter(change))}"


def test_two_tenants_may_name_a_source_alike(worker: Stack, sources: Sources, database: Database) -> None:
    database.run(ORDERS)
    other = Sources(worker, worker.new_tenant())
    try:
        for one in (sources, other):
            one.wait(one.postgres(database, "public.*"), "running")
        database.run("INSERT INTO orders VALUES (1, 'new', 1, NULL, NULL, NULL)")
        for one in (sources, other):
            wait_for(worker, topic(one), lambda found: len(found) == 1, "the insert")
        mine = sources.tenant.client.get("/v1/connectors").json()["items"][0]["id"]
        assert other.tenant.client.get(f"/v1/connectors/{mine}/status").status_code == 404
        assert other.delete(mine).status_code == 404
        sources.wait(mine, "running")
    finally:
        other.close()


def config_of(database: Database) -> dict[str, Any]:
    return {
        "source": "shop",
        "host": "127.0.0.1",
        "port": database.port,
        "database": database.name,
        "user": database.user,
        "password": "any",
        "tables": ["public.orders"],
    }


def policy(worker: Stack, sources: Sources) -> Any:
    """The newest message on `lily.cdc-sources` of the tenant's source."""
    key = f"{sources.tenant.id}|shop".encode()
    values = [one.value() for one in worker.log.read("lily.cdc-sources") if one.key() == key]
    return json.loads(values[-1]) if values[-1] is not None else None
