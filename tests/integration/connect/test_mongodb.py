"""MongoDB's change data: nothing is PostgreSQL's only."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

import pytest
from pymongo import MongoClient
from tests.integration.connect.changes import wait_for
from tests.support.databases import Sources
from tests.support.stack import Stack

from lily_local.environment import REPLICA_SET

pytestmark = pytest.mark.stack
EXAMPLES = Path(__file__).resolve().parents[3] / "contracts" / "examples" / "cdc"


def test_snapshot_then_stream(worker: Stack, sources: Sources) -> None:
    name = f"shop_{secrets.token_hex(4)}"
    client: MongoClient[dict[str, object]] = MongoClient(worker.environment["MONGO_URI"])
    ratings = client[name]["user_ratings"]
    try:
        ratings.insert_one({"_id": "ann|film", "user": "ann", "rating": 3, "seen": {"times": 1}})
        config = {
            "source": "ratings",
            "host": "127.0.0.1",
            "port": worker.config.port("mongo"),
            "replica_set": REPLICA_SET,
            "collections": [f"{name}.user_ratings"],
        }
        connector = sources.create("debezium-mongodb", config)
        sources.wait(connector, "running")
        topic = f"cdc.{sources.tenant.id}.ratings.{name}.user_ratings"
        wait_for(worker, topic, lambda found: [one.op for one in found] == ["r"], "the snapshot")
        ratings.update_one({"_id": "ann|film"}, {"$set": {"rating": 4}})
        ratings.insert_one({"user": "bob", "rating": 5})
        ratings.delete_one({"user": "bob"})
        found = wait_for(worker, topic, lambda found: len(found) >= 5, "the stream")
        by_op = {one.op: one for one in found}
        assert set(by_op) == {"r", "u", "c", "d", "tombstone"}
        assert json.loads(by_op["u"].value["payload"]["after"])["rating"] == 4
        assert json.loads(by_op["u"].key["payload"]["id"]) == "ann|film"
        assert "$oid" in json.loads(by_op["d"].key["payload"]["id"])
        assert isinstance(by_op["u"].value["payload"]["source"]["ord"], int)
        if os.environ.get("LILY_UPDATE_FIXTURES"):
            for op, word in (("r", "snapshot"), ("u", "update"), ("c", "insert"), ("d", "delete")):
                text = json.dumps(by_op[op].document(), indent=1, ensure_ascii=False)
                text = text.replace(sources.tenant.id, "acme").replace(name, "shop")
                (EXAMPLES / f"mongodb-{word}.json").write_text(text + "\n")
        answer = sources.delete(connector)
        assert answer.json()["removed"], answer.text
        assert sources.on_connect() == []
    finally:
        client.drop_database(name)
        client.close()


def test_what_is_wrong_is_told(worker: Stack, sources: Sources) -> None:
    config = {
        "source": "ratings",
        "host": "127.0.0.1",
        "port": worker.config.port("mongo"),
        "collections": ["shop.user_ratings"],
    }
    status = sources.status(sources.create("debezium-mongodb", config))
    assert not status["settled"]
    assert "Replica set not specified" in status["problem"]
