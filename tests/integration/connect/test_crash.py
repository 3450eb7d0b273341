"""What a tenant was told holds, whoever is killed or away."""

from __future__ import annotations

import signal

import psutil
import pytest
from tests.integration.connect.changes import wait_for
from tests.support.databases import Database, Sources
from tests.support.poll import until
from tests.support.stack import Stack

pytestmark = pytest.mark.stack


def test_a_killed_worker_comes_back_and_nothing_is_lost(
    worker: Stack, sources: Sources, database: Database
) -> None:
    database.run("CREATE TABLE orders (id bigint PRIMARY KEY)")
    connector = sources.postgres(database, "public.orders")
    sources.wait(connector, "running")
    rows = 0
    for _ in range(2):
        database.run("INSERT INTO orders SELECT generate_series(%s::int, %s::int)", rows + 1, rows + 300)
        restarts = worker.kill("connect")
        database.run("INSERT INTO orders SELECT generate_series(%s::int, %s::int)", rows + 301, rows + 600)
        rows += 600
        worker.wait_restarted("connect", restarts)
    sources.wait(connector, "running")
    topic = f"cdc.{sources.tenant.id}.shop.public.orders"
    wanted = set(range(1, rows + 1))
    wait_for(worker, topic, lambda found: {one.id for one in found} >= wanted, "every row")


def test_what_was_wanted_while_the_worker_was_away_is_carried_out(
    worker: Stack, sources: Sources, database: Database
) -> None:
    database.run("CREATE TABLE orders (id bigint PRIMARY KEY)")
    connector = sources.postgres(database, "public.orders")
    sources.wait(connector, "running")
    process = psutil.Process(worker.pid("connect"))
    process.send_signal(signal.SIGSTOP)
    try:
        assert sources.patch(connector, status="paused")["status"] == "paused"
        status = sources.status(connector)
        assert (status["state"], status["settled"]) == ("unknown", False)
        body = {
            "kind": "debezium-mongodb",
            "name": "x",
            "config": {"source": "x", "host": "127.0.0.1", "collections": ["a.b"]},
        }
        refused = sources.tenant.client.post("/v1/connectors", json=body)
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:lily:problem:connect-unavailable")
    finally:
        process.send_signal(signal.SIGCONT)
    sources.wait(connector, "paused")
    assert until(lambda: sources.status(connector)["settled"], "it to be settled")


def test_what_an_api_that_was_killed_left_undone_is_done(
    worker: Stack, sources: Sources, database: Database
) -> None:
    database.run("CREATE TABLE orders (id bigint PRIMARY KEY)")
    connector = sources.postgres(database, "public.orders")
    sources.wait(connector, "running")
    process = psutil.Process(worker.pid("connect"))
    process.send_signal(signal.SIGSTOP)
    try:
        answer = sources.delete(connector)
        assert not answer.json()["removed"]
        restarts = worker.kill("api")
    finally:
        process.send_signal(signal.SIGCONT)
    worker.wait_restarted("api", restarts)
    until(lambda: not sources.on_connect(), "it to go from Connect")
    until(lambda: not database.slots(), "its slot to go")


def test_what_is_removed_from_connect_by_hand_comes_back(
    worker: Stack, sources: Sources, database: Database
) -> None:
    database.run("CREATE TABLE orders (id bigint PRIMARY KEY)")
    connector = sources.postgres(database, "public.orders")
    sources.wait(connector, "running")
    [name] = sources.on_connect()
    assert sources.connect.delete(f"/connectors/{name}").status_code == 204
    for path in worker.config.connect_secrets.glob(f"{connector}.*"):
        path.unlink()
    sources.wait(connector, "running")
    database.run("INSERT INTO orders VALUES (1)")
    topic = f"cdc.{sources.tenant.id}.shop.public.orders"
    wait_for(worker, topic, lambda found: {one.id for one in found} == {1}, "the insert")
