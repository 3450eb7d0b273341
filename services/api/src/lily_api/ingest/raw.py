"""The archive's record of a request: its bytes and headers as they came, secrets redacted, for topic `lily.raw`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import lru_cache

import orjson

from lily_common.envelope import rfc3339
from lily_common.events import RAW_TOPIC
from lily_common.kafka import Record

_SECRET_NAMES = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})
_SECRET_WORDS = ("secret", "token", "password", "signature", "api-key", "apikey", "hmac", "credential")
#: Body of a request that holds what was erased: the archive has that it came, not what it said.
WITHHELD = b""
REDACTED = "[redacted]"


def is_secret(name: str) -> bool:
    """Whether a header of that name (lower case) may hold a secret; better one too many than one too few."""
    return name in _SECRET_NAMES or any(word in name for word in _SECRET_WORDS)


def withheld(record: Record) -> Record:
    """The archive's record without the request's body."""
    return replace(record, value=WITHHELD)


@lru_cache(maxsize=4096)
def _named(raw_name: bytes) -> tuple[str, bool]:
    name = raw_name.decode("latin-1")
    return name, is_secret(name)


def raw_record(
    *,
    request_id: str,
    tenant: str,
    path: str,
    headers: Iterable[tuple[bytes, bytes]],
    body: bytes,
    received: datetime,
    secret_headers: frozenset[str] = frozenset(),
) -> Record:
    """Key: the request id. Value: the body with its content encoding undone. `headers` are ASGI's, names lower case."""
    kept: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, secret = _named(raw_name)
        value = REDACTED if secret or name in secret_headers else raw_value.decode("latin-1")
        kept[name] = f"{kept[name]}, {value}" if name in kept else value
    return Record(
        RAW_TOPIC,
        request_id.encode(),
        body,
        [
            ("tenant", tenant.encode()),
            ("path", path.encode("utf-8", "replace")),
            ("received_time", rfc3339(received).encode()),
            ("headers", orjson.dumps(kept)),
        ],
    )
