"""The mirror's Mongo connection (one per process) and its indexes."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from typing import Any

from bson.codec_options import CodecOptions
from pymongo import ASCENDING, DESCENDING, IndexModel, MongoClient, WriteConcern
from pymongo.database import Database
from pymongo.errors import OperationFailure

from lily_common.documents import ASSETS, EDGES, IDENTITIES, INCIDENTS
from lily_spark.mirror.settings import MirrorConfig

Document = dict[str, Any]

#: What a checkpoint calls done is in Mongo, on a majority and in the journal.
DURABLE = WriteConcern(w="majority", j=True)
_AWARE: CodecOptions[Document] = CodecOptions(tz_aware=True)
_OPTIONS_CONFLICT = 85


@lru_cache(maxsize=4)
def _client(uri: str) -> MongoClient[Document]:
    """One client per process and address: Spark's Python workers are reused from task to task."""
    return MongoClient(uri, serverSelectionTimeoutMS=20_000, retryWrites=True, appname="lily-mirror")


def open_mirror(config: MirrorConfig) -> Database[Document]:
    """The mirror's database; writes are durable when acknowledged, times are aware."""
    client = _client(config.mongo_uri)
    return client.get_database(config.database, codec_options=_AWARE, write_concern=DURABLE)


def ensure_indexes(mirror: Database[Document], dedupe: timedelta) -> None:
    """Create what is missing; idempotent, and quick when nothing is. Lists hold only assets that exist."""
    existing = {"deleted": False}
    mirror[ASSETS].create_indexes(
        [
            IndexModel([("tenant", 1), (field, 1), ("_id", 1)], partialFilterExpression=existing)
            for field in ("asset_type", "tags", "parent", "search")
        ]
        + [
            IndexModel([("tenant", 1), ("_id", 1)], partialFilterExpression=existing),
            IndexModel([("expires_at", ASCENDING)]),
            IndexModel([("partial", ASCENDING)], partialFilterExpression={"partial": True}),
        ]
    )
    mirror[EDGES].create_indexes(
        [
            IndexModel([("tenant", 1), ("downstream", 1), ("removed", 1)]),
            IndexModel([("tenant", 1), ("upstream", 1), ("removed", 1)]),
        ]
    )
    mirror[INCIDENTS].create_indexes(
        [IndexModel([("tenant", 1), ("qualified_name", 1), ("open", DESCENDING), ("version", DESCENDING)])]
    )
    _ensure_expiry(mirror, dedupe)


def _ensure_expiry(mirror: Database[Document], dedupe: timedelta) -> None:
    seconds = int(dedupe.total_seconds())
    try:
        mirror[IDENTITIES].create_index([("at", ASCENDING)], expireAfterSeconds=seconds)
    except OperationFailure as conflict:
        if conflict.code != _OPTIONS_CONFLICT:
            raise
        index = {"keyPattern": {"at": 1}, "expireAfterSeconds": seconds}
        mirror.command("collMod", IDENTITIES, index=index)
