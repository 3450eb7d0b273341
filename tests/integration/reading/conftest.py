"""A real mongod of one's own (replica set of one), started from its wheel; each test gets a fresh database."""

import socket
import subprocess
import sysconfig
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError
from tests.integration.reading.world import World, new_world
from tests.support.api import api_settings, running_api
from tests.support.postgres import new_database, postgres_server

from lily_api.migrations.run import upgrade
from lily_common.documents import ASSETS
from lily_spark.mirror.settings import MirrorConfig
from lily_spark.mirror.store import ensure_indexes, open_mirror


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="package")
def mongo_uri(tmp_path_factory) -> Iterator[str]:
    binary = Path(sysconfig.get_path("purelib")) / "fiftyone/db/bin/mongod"
    binary.chmod(0o755)
    folder, port = tmp_path_factory.mktemp("mongo"), _free_port()
    command = [binary, "--dbpath", folder, "--port", str(port), "--bind_ip", "127.0.0.1", "--replSet", "lily"]
    command += ["--wiredTigerCacheSizeGB", "0.25", "--logpath", folder / "log"]
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)
    try:
        direct = MongoClient(
            f"mongodb://127.0.0.1:{port}/?directConnection=true", serverSelectionTimeoutMS=20000
        )
        member = {"_id": 0, "host": f"127.0.0.1:{port}"}
        direct.admin.command("replSetInitiate", {"_id": "lily", "members": [member]})
        uri = f"mongodb://127.0.0.1:{port}/?replicaSet=lily"
        _await_primary(uri)
        yield uri
    finally:
        process.terminate()
        process.wait(timeout=30)


def _await_primary(uri: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            MongoClient(uri, serverSelectionTimeoutMS=500).admin.command("ping")
            return
        except PyMongoError:
            if time.monotonic() > deadline:
                raise


@pytest.fixture
def config(mongo_uri) -> Iterator[MirrorConfig]:
    """A mirror of its own, with its indexes."""
    name = f"lily_{uuid.uuid4().hex[:12]}"
    made = MirrorConfig(mongo_uri, name, timedelta(days=7), timedelta(days=90), timedelta(days=30))
    mirror = open_mirror(made)
    ensure_indexes(mirror, made.dedupe)
    assert ASSETS in mirror.list_collection_names()
    yield made
    mirror.client.drop_database(name)


@pytest.fixture
def mirror(config):
    return open_mirror(config)


@pytest.fixture(scope="package")
def database() -> Iterator[str]:
    """URI of a migrated PostgreSQL."""
    with postgres_server() as server:
        uri = new_database(server)
        upgrade(api_settings(uri))
        yield uri


@pytest.fixture
async def world(database, config, mirror, tmp_path, monkeypatch) -> AsyncIterator[World]:
    settings = api_settings(
        database, MONGO_URI=config.mongo_uri, LILY_MONGO_DATABASE=config.database, LAKE_URI=str(tmp_path)
    )
    async with running_api(settings, monkeypatch) as api:
        yield await new_world(api, config, mirror, tmp_path)
