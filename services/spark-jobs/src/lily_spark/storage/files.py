"""The lake's files as such: listed, read, written and removed, on S3 or in a local folder. Paths are the lake's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from lily_spark.config import SparkSettings


class LakeFiles:
    """E.g. `read("silver/assets/_delta_log/00000000000000000000.json")`."""

    def __init__(self, settings: SparkSettings) -> None:
        scheme, _, rest = settings.lake_uri.rpartition("://")
        self._root = rest.rstrip("/")
        if scheme.startswith("s3"):
            protocol, _, address = settings.s3_endpoint.partition("://")
            self.system: Any = fs.S3FileSystem(
                access_key=settings.s3_access_key.get_secret_value(),
                secret_key=settings.s3_secret_key.get_secret_value(),
                endpoint_override=address.rstrip("/"),
                scheme=protocol,
                region="us-east-1",
            )
        else:
            self.system = fs.LocalFileSystem()

    def list(self, folder: str) -> list[str]:
        """Every file below `folder`, sorted; none when there is no such folder."""
        selector = fs.FileSelector(self.path(folder), recursive=True, allow_not_found=True)
        infos = self.system.get_file_info(selector)
        return sorted(info.path[len(self._root) + 1 :] for info in infos if info.is_file)

    def read(self, path: str) -> bytes:
        with self.system.open_input_stream(self.path(path)) as stream:
            return bytes(stream.read())

    def write(self, path: str, content: bytes | memoryview) -> None:
        if isinstance(self.system, fs.LocalFileSystem):  # an object store has no folders
            self.system.create_dir(self.path(path).rpartition("/")[0], recursive=True)
        with self.system.open_output_stream(self.path(path)) as stream:
            stream.write(content)

    def parquet(self, path: str) -> pq.ParquetFile:
        return pq.ParquetFile(pa.BufferReader(self.read(path)))

    def remove(self, paths: Iterable[str]) -> int:
        """Remove them; one that is gone already is fine. Returns how many were there."""
        removed = 0
        for path in paths:
            try:
                self.system.delete_file(self.path(path))
                removed += 1
            except FileNotFoundError:
                continue
        return removed

    def path(self, path: str) -> str:
        """As `system` names it."""
        return f"{self._root}/{path}"
