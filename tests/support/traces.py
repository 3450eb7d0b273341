"""Where a word can be found in a running stack: every store opened by its own means, every file decoded."""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition
from psycopg import sql

from tests.support.stack import Stack

_SUPER, _HEADER = 8, struct.Struct(">IQI")


def traces(stack: Stack, word: str) -> set[str]:
    """Names of the places that hold `word`, whatever its case: `lake:<file>`, `postgres:<table>`, `kafka:<topic>`, ..."""
    wanted = word.casefold().encode()
    found: set[str] = set()
    for place, content in _everything(stack):
        if wanted in content.lower():
            found.add(place)
    return found


def _everything(stack: Stack) -> Iterator[tuple[str, bytes]]:
    yield from lake(stack)
    yield from volumes(stack)
    yield from mongo(stack)
    yield from postgres(stack)
    yield from kafka(stack)
    yield from checkpoints(stack)


def lake(stack: Stack) -> Iterator[tuple[str, bytes]]:
    environment = stack.environment
    system = pafs.S3FileSystem(
        access_key=environment["S3_ACCESS_KEY"],
        secret_key=environment["S3_SECRET_KEY"],
        endpoint_override=environment["S3_ENDPOINT"].removeprefix("http://"),
        scheme="http",
        region="us-east-1",
    )
    root = environment["LAKE_URI"].partition("://")[2]
    for info in system.get_file_info(pafs.FileSelector(root, recursive=True)):
        if info.is_file:
            try:
                with system.open_input_stream(info.path) as stream:
                    content = bytes(stream.read())
            except FileNotFoundError:  # compacted away meanwhile
                continue
            yield f"lake:{info.path}", decoded(content)


def decoded(content: bytes) -> bytes:
    """The content, and with Parquet its rows, partitions' statistics and metadata as text."""
    if content[:4] != b"PAR1":
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    try:
        file = pq.ParquetFile(io.BytesIO(content))
        told: list[Any] = [_plain(row) for row in file.read().to_pylist()]
    except pa.ArrowException:
        return content
    meta = file.metadata
    for group in range(meta.num_row_groups):
        for column in range(meta.num_columns):
            told.append(meta.row_group(group).column(column).statistics)
    return content + repr(told).encode("utf-8", "replace") + repr(meta.metadata).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {key: _plain(held) for key, held in value.items()}
    return [_plain(held) for held in value] if isinstance(value, list | tuple) else value


def volumes(stack: Stack) -> Iterator[tuple[str, bytes]]:
    """SeaweedFS's volumes, needle by needle, those of removed objects too."""
    for path in sorted(stack.config.data("s3").rglob("*.dat")):
        for number, needle in enumerate(_needles(path)):
            yield f"volume:{path.name}#{number}", decoded(needle)


def _needles(path: Path) -> Iterator[bytes]:
    """Data of the needles of a volume of version 3: header (cookie, id, size), body, checksum, time, padding to 8."""
    content = path.read_bytes()
    at = _SUPER
    while at + _HEADER.size <= len(content):
        _cookie, _id, size = _HEADER.unpack_from(content, at)
        body = at + _HEADER.size
        if size:
            (length,) = struct.unpack_from(">I", content, body)
            yield content[body + 4 : body + 4 + length]
        used = _HEADER.size + size + 4 + 8
        at += used + 8 - used % 8


def mongo(stack: Stack) -> Iterator[tuple[str, bytes]]:
    client = stack.mirror.client
    for database in client.list_database_names():
        for name in client[database].list_collection_names():
            for document in client[database][name].find():
                yield f"mongo:{database}.{name}", repr(document).encode("utf-8", "replace")


def postgres(stack: Stack) -> Iterator[tuple[str, bytes]]:
    with psycopg.connect(stack.environment["POSTGRES_URI"]) as connection:
        tables = connection.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        for schema, table in tables:
            statement = sql.SQL("COPY (SELECT * FROM {}) TO STDOUT").format(sql.Identifier(schema, table))
            with connection.cursor().copy(statement) as copy:
                yield f"postgres:{table}", b"".join(bytes(part) for part in copy)


def kafka(stack: Stack) -> Iterator[tuple[str, bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": stack.environment["KAFKA_BOOTSTRAP"],
            "group.id": "traces",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        for topic, described in consumer.list_topics(timeout=15).topics.items():
            if topic.startswith("__"):
                continue
            for number in described.partitions:
                yield from _partition(consumer, topic, number)
    finally:
        consumer.close()


def _partition(consumer: Consumer, topic: str, number: int) -> Iterator[tuple[str, bytes]]:
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=15)
    if low >= high:
        return
    consumer.assign([TopicPartition(topic, number, low)])
    empty = 0
    while empty < 2:
        message = consumer.poll(1.0)
        if message is None or message.error() is not None:
            empty += 1
            continue
        headers = repr(message.headers()).encode()
        yield f"kafka:{topic}", (_bytes(message.key()) + b" " + _bytes(message.value()) + headers)
        if (message.offset() or 0) >= high - 1:
            return


def _bytes(part: bytes | str | None) -> bytes:
    return part.encode() if isinstance(part, str) else part or b""


def checkpoints(stack: Stack) -> Iterator[tuple[str, bytes]]:
    """Spark's checkpoints and the identity index, as bytes."""
    for path in sorted(stack.config.data("checkpoints").rglob("*")):
        if path.is_file():
            try:
                yield f"checkpoint:{path.relative_to(stack.config.data('checkpoints'))}", path.read_bytes()
            except FileNotFoundError:
                continue
