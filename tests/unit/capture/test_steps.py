"""Making Connect agree: each pass ends the same, wherever the one before broke off."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.unit.capture.connect import Connect, Held

from lily_api.capture import steps
from lily_api.capture.client import ConnectAwayError, ConnectClient, ConnectRefusedError
from lily_api.capture.models import PAUSED, REMOVED, RUNNING, CaptureSource
from lily_api.capture.passwords import PasswordFolder
from lily_api.capture.steps import Tools, UnreachableSourceError
from lily_common.crypto import SecretBox
from lily_common.kafka import Record
from lily_connectors.secrets import Secret, seal
from lily_connectors.ssrf import Guard

NAME = "lily.acme.shop"
BOX = SecretBox(bytes(range(32)))


class Producer:
    def __init__(self) -> None:
        self.records: list[Record] = []

    async def send(self, records: Sequence[Record], *, seconds: float | None = None) -> None:
        self.records.extend(records)


@pytest.fixture
def connect() -> Connect:
    return Connect()


@pytest.fixture
def tools(connect: Connect, tmp_path: Path) -> Tools:
    client = ConnectClient("http://connect.test", connect.transport())
    guard = Guard((ip_network("127.0.0.0/8"),))
    return Tools(client, PasswordFolder(tmp_path), Producer(), BOX, guard)  # type: ignore[arg-type]


def source(wanted: str = RUNNING, **changes: Any) -> CaptureSource:
    """A MongoDB source: it has no slot, so that nothing but Connect is spoken to."""
    config = {
        "source": "shop",
        "host": "127.0.0.1",
        "collections": ["shop.orders"],
        "user": "lily",
        "password": "**********",
        "mirror": {"shop.orders": {"columns": ["_id"], "ttl_days": 3}},
        **changes,
    }
    return CaptureSource(
        connector_id="con_1",
        tenant="acme",
        kind="debezium-mongodb",
        source="shop",
        config=config,
        secrets=seal(BOX, "acme", "con_1", [Secret("hunter2")]),
        wanted=wanted,
        revision=1,
        settled=0,
        attempts=0,
    )


def policies(tools: Tools) -> list[Any]:
    records: list[Record] = tools.producer.records  # type: ignore[attr-defined]
    assert {(record.topic, record.key) for record in records} <= {("lily.cdc-sources", b"acme|shop")}
    return [orjson.loads(record.value) if record.value is not None else None for record in records]


async def test_made_with_the_password_in_a_file_and_the_policy_told(
    tools: Tools, connect: Connect, tmp_path: Path
) -> None:
    await steps.settle(tools, source(), restart=False)
    config = connect.held[NAME].config
    [path] = tmp_path.iterdir()
    assert path.read_text() == "hunter2"
    assert config["mongodb.password"] == f"${{lily:{tmp_path}:{path.name}}}"
    assert "hunter2" not in str(config)
    [policy] = policies(tools)
    assert policy == {
        "tenant": "acme",
        "source": "shop",
        "connector_id": "con_1",
        "kind": "debezium-mongodb",
        "namespace": "mongodb://127.0.0.1:27017",
        "database": None,
        "mirror": {"shop.orders": {"columns": ["_id"], "ttl_days": 3}},
    }


async def test_a_second_pass_changes_nothing(tools: Tools, connect: Connect) -> None:
    wanted = source()
    await steps.settle(tools, wanted, restart=False)
    wanted.settled, before = wanted.revision, len(connect.calls)
    found = await steps.settle(tools, wanted, restart=False)
    assert connect.calls[before:] == [
        f"GET /connectors/{NAME}/config",
        f"GET /connectors/{NAME}/status",
        "PUT /connector-plugins/io.debezium.connector.mongodb.MongoDbConnector/config/validate",
    ]
    assert found.state is not None
    assert (found.state.state, found.failing) == ("RUNNING", False)
    assert len(policies(tools)) == 1


@pytest.mark.parametrize("breaks_at", range(4))
@pytest.mark.parametrize("wanted", [RUNNING, PAUSED])
async def test_wherever_it_breaks_off_the_next_pass_ends_the_same(
    tools: Tools, connect: Connect, wanted: str, breaks_at: int
) -> None:
    connect.breaks_at, row = breaks_at, source(wanted)
    try:
        await steps.settle(tools, row, restart=False)
    except ConnectAwayError:
        connect.breaks_at = None
        await steps.settle(tools, row, restart=False)
    assert connect.held[NAME].state == ("PAUSED" if wanted == PAUSED else "RUNNING")
    assert connect.held[NAME].offsets


async def test_paused_resumed_and_what_was_changed_by_hand_is_put_right(
    tools: Tools, connect: Connect
) -> None:
    await steps.settle(tools, source(), restart=False)
    await steps.settle(tools, source(PAUSED), restart=False)
    assert connect.held[NAME].state == "PAUSED"
    await steps.settle(tools, source(), restart=False)
    assert connect.held[NAME].state == "RUNNING"
    connect.held[NAME].config["mongodb.connection.string"] = "mongodb://elsewhere:27017/"
    await steps.settle(tools, source(), restart=False)
    assert "127.0.0.1" in connect.held[NAME].config["mongodb.connection.string"]
    assert connect.held[NAME].offsets


@pytest.mark.parametrize("breaks_at", [None, *range(2, 12)])
async def test_new_tables_take_the_snapshot_again(
    tools: Tools, connect: Connect, breaks_at: int | None
) -> None:
    await steps.settle(tools, source(), restart=False)
    fewer_then_more = source(collections=["shop.orders", "shop.bills"])
    connect.breaks_at = breaks_at + len(connect.calls) if breaks_at is not None else None
    for _ in range(2):
        try:
            await steps.settle(tools, fewer_then_more, restart=False)
        except ConnectAwayError:
            connect.breaks_at = None
    connect.breaks_at = None
    await steps.settle(tools, fewer_then_more, restart=False)
    held = connect.held[NAME]
    assert (held.offsets, held.state) == (False, "RUNNING")
    assert "bills" in held.config["collection.include.list"]


@pytest.mark.parametrize("changes", [{"snapshot": "no_data", "collections": ["shop.orders", "shop.bills"]}])
async def test_no_snapshot_where_none_is_wanted(
    tools: Tools, connect: Connect, changes: dict[str, Any]
) -> None:
    await steps.settle(tools, source(snapshot="no_data"), restart=False)
    await steps.settle(tools, source(**changes), restart=False)
    assert connect.held[NAME].offsets


async def test_failed_tasks_are_restarted_when_asked(tools: Tools, connect: Connect) -> None:
    await steps.settle(tools, source(), restart=False)
    connect.held[NAME].tasks = [{"id": 0, "state": "FAILED", "trace": "why"}]
    assert (await steps.settle(tools, source(), restart=False)).failing
    assert connect.held[NAME].tasks[0]["state"] == "FAILED"
    await steps.settle(tools, source(), restart=True)
    assert connect.held[NAME].tasks[0]["state"] == "RUNNING"


@pytest.mark.parametrize("breaks_at", [None, *range(7)])
async def test_removal_leaves_nothing_wherever_it_breaks_off(
    tools: Tools, connect: Connect, tmp_path: Path, breaks_at: int | None
) -> None:
    await steps.settle(tools, source(), restart=False)
    connect.held["lily.acme.other"] = Held({})
    connect.breaks_at = breaks_at + len(connect.calls) if breaks_at is not None else None
    try:
        await steps.remove(tools, source(REMOVED))
    except ConnectAwayError:
        connect.breaks_at = None
        await steps.remove(tools, source(REMOVED))
    assert list(connect.held) == ["lily.acme.other"]
    assert list(tmp_path.iterdir()) == []
    assert policies(tools)[-1] is None
    calls = [call for call in connect.calls if call.startswith("DELETE")]
    assert calls[0].endswith("/offsets"), "offsets that stay would let a new source skip its snapshot"


async def test_tasks_that_run_but_are_not_let_in_are_failing(tools: Tools, connect: Connect) -> None:
    row = source()
    await steps.settle(tools, row, restart=False)
    connect.refuses = "password authentication failed"
    found = await steps.settle(tools, row, restart=False)
    assert (found.failing, found.trouble) == (True, "password authentication failed")


async def test_connects_reason_is_told(tools: Tools, connect: Connect) -> None:
    connect.refuses = "password authentication failed"
    with pytest.raises(ConnectRefusedError, match="password authentication failed"):
        await steps.settle(tools, source(), restart=False)


async def test_an_address_that_has_become_forbidden_is_not_given_to_connect(
    tools: Tools, connect: Connect
) -> None:
    with pytest.raises(UnreachableSourceError, match=r"10\.0\.0\.1 is not a public address"):
        await steps.settle(tools, source(host="10.0.0.1"), restart=False)
    assert connect.held == {}


async def test_a_new_password_is_a_new_file_and_the_old_one_goes(
    tools: Tools, connect: Connect, tmp_path: Path
) -> None:
    first = source()
    await steps.settle(tools, first, restart=False)
    second = source()
    second.secrets = seal(BOX, "acme", "con_1", [Secret("changed")])
    await steps.settle(tools, second, restart=False)
    [path] = tmp_path.iterdir()
    assert path.read_text() == "changed"
    assert path.name in connect.held[NAME].config["mongodb.password"]
