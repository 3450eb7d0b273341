"""When something became visible in a store: two watchers that ask the store itself and disturb it little.

Both run as threads of the benchmark's process, which does nothing else while the load runs.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any
from urllib.parse import unquote

import boto3
import orjson
import pyarrow.parquet as pq
from botocore.config import Config
from botocore.exceptions import ClientError
from pymongo import MongoClient

from tests.support.stores import SILVER, Lake


class Watch:
    """A thread that looks until the context is left. `seen` is a map of asset to nanoseconds since 1970."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, name=type(self).__name__, daemon=True)

    def _look(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join(30)


class MirrorWatch(Watch):
    """First change of each asset's document, from MongoDB's change stream: told once a majority has it."""

    def __init__(self, uri: str, database: str, tenant: str) -> None:
        super().__init__()
        self.seen: dict[str, int] = {}
        self._client: MongoClient[dict[str, Any]] = MongoClient(uri)
        self._prefix = f"{tenant}|"
        pipeline = [
            {"$match": {"operationType": {"$in": ["insert", "replace", "update"]}}},
            {"$project": {"documentKey": 1}},
        ]
        self._stream = self._client[database]["assets"].watch(pipeline, max_await_time_ms=100)

    def _look(self) -> None:
        with self._stream as stream:
            while not self._stopping.is_set():
                change = stream.try_next()
                if change is None:
                    continue
                name = change["documentKey"]["_id"]
                if name.startswith(self._prefix):
                    self.seen.setdefault(name.removeprefix(self._prefix), time.time_ns())
        self._client.close()


class LakeWatch(Watch):
    """When each commit of `silver.assets` could be listed: asks for the next commit's file again and again.

    What the commits hold is read afterwards (`assets`), so that the reading costs the run nothing.
    """

    def __init__(self, lake: Lake, uri: str, pause: float = 0.02) -> None:
        super().__init__()
        options = lake.options
        self._s3 = boto3.client(
            "s3",
            endpoint_url=options["AWS_ENDPOINT_URL"],
            aws_access_key_id=options["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=options["AWS_SECRET_ACCESS_KEY"],
            region_name=options["AWS_REGION"],
            config=Config(retries={"max_attempts": 1}),
        )
        self._bucket, _, prefix = uri.split("://", 1)[1].partition("/")
        self._table = f"{prefix}/{SILVER}".lstrip("/")
        self._version = lake.table(SILVER).version() + 1
        self._pause = pause
        self._commits: list[tuple[int, bytes]] = []

    def _look(self) -> None:
        while not self._stopping.is_set():
            body = self._get(f"_delta_log/{self._version:020d}.json")
            if body is None:
                time.sleep(self._pause)
                continue
            self._commits.append((time.time_ns(), body))
            self._version += 1

    def _get(self, path: str) -> bytes | None:
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=f"{self._table}/{path}")
        except ClientError as missing:
            if missing.response["Error"]["Code"] in ("NoSuchKey", "404"):
                return None
            raise
        body: bytes = answer["Body"].read()
        return body

    def assets(self, tenant: str) -> dict[str, int]:
        """Asset -> when the first commit that names it was there, over all commits seen."""
        found: dict[str, int] = {}
        for at, body in self._commits:
            for path in _added(body):
                data = self._get(path)
                if data is None:
                    continue
                table = pq.read_table(io.BytesIO(data), columns=["tenant", "subject"])
                for row in table.to_pylist():
                    if row["tenant"] == tenant:
                        found.setdefault(row["subject"], at)
        return found


def _added(commit: bytes) -> Iterator[str]:
    for line in commit.splitlines():
        action = orjson.loads(line)
        if "add" in action and action["add"].get("dataChange", True):
            yield unquote(action["add"]["path"])
