"""The embedded servers as a user and as tests have them: real clients, kills, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import psutil
import psycopg
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pymongo import MongoClient
from tests.support.poll import until

from lily_local import control, ports, processes, secrets, state
from lily_local.components.registry import SERVERS
from lily_local.stack import LocalStack

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def servers() -> Iterator[LocalStack]:
    with LocalStack(SERVERS) as stack:
        yield stack


def postgres(stack: LocalStack, query: str) -> Any:
    with psycopg.connect(stack.env["POSTGRES_URI"], connect_timeout=5) as connection:
        return connection.execute(query).fetchone()


def s3_client(stack: LocalStack, **other: str) -> Any:
    keys = {
        "aws_access_key_id": stack.env["S3_ACCESS_KEY"],
        "aws_secret_access_key": stack.env["S3_SECRET_KEY"],
        **other,
    }
    once = Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"})
    return boto3.client(
        "s3", endpoint_url=stack.env["S3_ENDPOINT"], region_name="us-east-1", config=once, **keys
    )


def mongo_thing(stack: LocalStack) -> dict[str, Any] | None:
    with MongoClient[dict[str, Any]](stack.env["MONGO_URI"]) as client:
        return client["trial"]["things"].find_one({"_id": "kept"})


def produce(stack: LocalStack, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": stack.env["KAFKA_BOOTSTRAP"], "acks": "all"})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def test_kafka_keeps_messages_and_makes_no_topic_by_itself(servers: LocalStack) -> None:
    admin = AdminClient({"bootstrap.servers": servers.env["KAFKA_BOOTSTRAP"]})
    admin.create_topics([NewTopic("trial", 2, 1)])["trial"].result(30)
    produce(servers, "trial", b"one")
    admin.list_topics("nobody-made-me", timeout=10)  # asking for one is what would make it
    assert "nobody-made-me" not in admin.list_topics(timeout=10).topics


def test_mongo_is_a_replica_set_with_transactions(servers: LocalStack) -> None:
    with (
        MongoClient[dict[str, Any]](servers.env["MONGO_URI"]) as client,
        client.start_session() as session,
        session.start_transaction(),
    ):
        client["trial"]["things"].insert_one({"_id": "kept"}, session=session)
    assert mongo_thing(servers) == {"_id": "kept"}


def test_postgres_wants_the_password_and_keeps_a_logical_log(servers: LocalStack) -> None:
    assert postgres(servers, "show wal_level") == ("logical",)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(servers.env["POSTGRES_URI"], password="guessed", connect_timeout=5)


def test_s3_checks_keys_and_conditions(servers: LocalStack) -> None:
    client = s3_client(servers)
    client.put_object(Bucket="lily-lake", Key="trial", Body=b"1", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        client.put_object(Bucket="lily-lake", Key="trial", Body=b"2", IfNoneMatch="*")
    assert client.get_object(Bucket="lily-lake", Key="trial")["Body"].read() == b"1"
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        s3_client(servers, aws_secret_access_key="guessed").list_objects_v2(Bucket="lily-lake")


def test_everything_listens_on_loopback_only(servers: LocalStack) -> None:
    for pid in servers.pids():
        listening = psutil.Process(pid).net_connections("tcp")
        addresses = {it.laddr.ip for it in listening if it.status == "LISTEN"}
        assert addresses <= {"127.0.0.1"}, psutil.Process(pid).name()


@pytest.mark.parametrize("name", SERVERS)
def test_a_killed_server_comes_back_with_its_data(servers: LocalStack, name: str) -> None:
    before = servers.component(name).restarts
    servers.wait_ready(name, servers.kill(name))
    after = servers.component(name)
    assert (after.restarts, after.exit_code) == (before + 1, -signal.SIGKILL)
    match name:
        case "kafka":
            produce(servers, "trial", b"two")
        case "mongo":
            assert mongo_thing(servers) == {"_id": "kept"}
        case "postgres":
            assert postgres(servers, "select current_database()") == ("lily",)
        case "s3":
            s3_client(servers).head_object(Bucket="lily-lake", Key="trial")


def test_a_second_stack_runs_beside_the_first(servers: LocalStack) -> None:
    with LocalStack(["postgres"]) as second:
        assert second.env["POSTGRES_URI"] != servers.env["POSTGRES_URI"]
        assert postgres(second, "select 1") == postgres(servers, "select 1")
        home = second.config.home
    assert not home.exists()


class Commands:
    """`lily up | down | status` for one folder, as a user types them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.base = ports.free_base()

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "LILY_HOME": str(self.home),
            "LILY_PORT_BASE": str(self.base),
            "COLUMNS": "120",
        }
        command = [sys.executable, "-m", "lily_local", *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=200, check=False
        )

    def status(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self("status", "--json").stdout)
        return document

    def left(self) -> list[str]:
        """Names of the processes of this stack that live."""
        kept = secrets.ensure(self.home)
        return [process.name() for process in processes.marked(kept.stack_id)]


@pytest.fixture
def lily(tmp_path: Path) -> Iterator[Commands]:
    commands = Commands(tmp_path / "home")
    yield commands
    commands("down")


def test_up_status_down(lily: Commands) -> None:
    up = lily("up", "--only", "postgres")
    assert up.returncode == 0, up.stderr
    assert "stack is up" in up.stdout
    assert stat.S_IMODE((lily.home / "env").stat().st_mode) == 0o600
    again = lily("up", "--only", "postgres")
    assert "already up" in again.stdout
    more = lily("up", "--only", "mongo,postgres")
    assert more.returncode == 0, more.stderr
    status = lily.status()
    assert {name: it["state"] for name, it in status["components"].items()} == {
        "mongo": "ready",
        "postgres": "ready",
    }
    assert status["memory_pss"] > 10_000_000
    assert "ready to accept connections" in lily("logs", "postgres").stdout
    down = lily("down")
    assert down.returncode == 0, down.stderr
    assert lily.left() == []
    refused = lily("status")
    assert refused.returncode == 1
    assert "no stack is up" in refused.stderr
    lily("down", "--wipe")
    assert not lily.home.exists()


def test_after_a_killed_supervisor_nothing_is_orphaned(lily: Commands) -> None:
    assert lily("up", "--only", "mongo,postgres").returncode == 0
    os.kill(lily.status()["supervisor"]["pid"], signal.SIGKILL)
    until(lambda: lily.left() == [], "the kernel to stop the children", deadline=30)
    assert lily("up", "--only", "mongo,postgres").returncode == 0
    assert lily.status()["components"]["postgres"]["state"] == "ready"


def test_what_outlives_its_supervisor_is_stopped_by_down(lily: Commands) -> None:
    assert lily("up", "--only", "postgres").returncode == 0
    current = lily.status()
    server, supervisor = current["components"]["postgres"]["pid"], current["supervisor"]["pid"]
    os.kill(server, signal.SIGSTOP)  # so that it cannot follow its supervisor at once
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: processes.identify(supervisor) is None, "the supervisor to end")
    assert processes.identify(server) is not None
    down = lily("down")
    assert "is down" in down.stdout, down.stderr
    assert lily.left() == []


def test_a_taken_port_is_one_clear_line(lily: Commands, servers: LocalStack) -> None:
    taken = servers.config.port("mongo")
    refused = lily("up", "--only", "mongo", "--port", f"mongo={taken}")
    assert refused.returncode == 1
    assert f"port {taken} (mongo) is taken by mongod" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_a_server_that_cannot_start_shows_why(lily: Commands) -> None:
    lily("up", "--only", "postgres")
    lily("down")
    (lily.home / "data" / "postgres" / "PG_VERSION").write_text("9\n")
    refused = lily("up", "--only", "postgres")
    assert refused.returncode == 1
    assert "postgres did not start" in refused.stderr
    assert "initialized by PostgreSQL version 9" in refused.stderr


def test_the_stack_stops_with_the_test_that_started_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    code = (
        "import pathlib, time; from lily_local.stack import LocalStack;"
        f"LocalStack(['postgres'], pathlib.Path({str(home)!r})).start(); print('on', flush=True); time.sleep(60)"
    )
    caller = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert caller.stdout is not None
    assert caller.stdout.readline() == b"on\n"
    caller.kill()
    caller.wait()
    kept = secrets.ensure(home)
    until(lambda: processes.marked(kept.stack_id) == [], "the stack to stop", deadline=30)
    assert state.read(home / "state.json").components["postgres"].phase == "stopped"
    assert not control.stop(LocalStack(home=home).config)
