"""From an HTTP request to CloudEvents as decoded JSON objects (HTTP binding of CloudEvents 1.0.2).

- structured: `application/cloudevents+json`, one event; batched: `application/cloudevents-batch+json`, a list
- `application/json`: binary mode when there are `ce-` headers (the body is the data), else an event or a list
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import orjson

from lily_common.errors import FieldError, InvalidInputError, MalformedError, UnsupportedMediaTypeError

STRUCTURED: Final = "application/cloudevents+json"
BATCHED: Final = "application/cloudevents-batch+json"
JSON: Final = "application/json"
#: Items of one batch; more belong into several requests.
MAX_ITEMS: Final = 1000
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^"';\s]+)""", re.IGNORECASE)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")


@dataclass(frozen=True, slots=True)
class Parsed:
    """`items` are as the client wrote them; `batch` says whether it asked for an answer per item."""

    items: list[Any]
    batch: bool


def decode_json(body: bytes) -> Any:
    """The body as JSON. Raises MalformedError (400) that says where it broke."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as broken:
        if not body.strip():
            raise MalformedError("the body is empty", code="malformed-json") from None
        raise MalformedError(f"the body is not JSON: {broken}", code="malformed-json") from None


def media_type(content_type: str) -> str:
    """The media type without parameters, lower case. Raises UnsupportedMediaTypeError for another charset than UTF-8."""
    essence, semicolon, parameters = content_type.partition(";")
    if semicolon:
        charset = _CHARSET.search(parameters)
        if charset is not None and charset.group(1).lower() not in ("utf-8", "utf8", "us-ascii"):
            raise UnsupportedMediaTypeError(f"charset {charset.group(1)[:40]} is not accepted; send UTF-8")
    return essence.strip().lower()


def parse(content_type: str, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> Parsed:
    """The request's events. Raises MalformedError (400), UnsupportedMediaTypeError (415), InvalidInputError (422)."""
    kind = media_type(content_type)
    if kind == BATCHED:
        return _as_list(decode_json(body))
    if kind == STRUCTURED:
        return _as_one(decode_json(body))
    if kind != JSON:
        raise UnsupportedMediaTypeError(
            f"Content-Type has to be {STRUCTURED}, {BATCHED} or {JSON}, not {kind[:80] or 'absent'}"
        )
    attributes = binary_attributes(headers)
    if attributes:
        return Parsed([{**attributes, "datacontenttype": JSON, "data": decode_json(body)}], batch=False)
    decoded = decode_json(body)
    return _as_list(decoded) if isinstance(decoded, list) else _as_one(decoded)


def _as_list(decoded: Any) -> Parsed:
    if not isinstance(decoded, list):
        raise _wrong(f"a body of {BATCHED} has to be a JSON array of events")
    if len(decoded) > MAX_ITEMS:
        raise _wrong(
            f"a batch may hold {MAX_ITEMS} events, this one has {len(decoded)}; send several",
            "batch-too-large",
        )
    return Parsed(decoded, batch=True)


def _as_one(decoded: Any) -> Parsed:
    if not isinstance(decoded, dict):
        raise _wrong("the body has to be one event, a JSON object")
    return Parsed([decoded], batch=False)


def _wrong(message: str, code: str = "invalid-input") -> InvalidInputError:
    return InvalidInputError(message, [FieldError("body", message)], code=code)


def binary_attributes(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The `ce-` headers as attributes. Raises MalformedError (400) for one given twice or not decodable."""
    attributes: dict[str, str] = {}
    for raw_name, raw_value in headers:
        if not raw_name.startswith(b"ce-"):
            continue
        name = raw_name[3:].decode("latin-1")
        if name in attributes:
            raise MalformedError(f"the header ce-{name} is given twice")
        if name not in ("data", "data_base64"):
            attributes[name] = decode_header(name, raw_value)
    return attributes


def decode_header(name: str, raw: bytes) -> str:
    """A header's value as HTTP binding section 3.1.3.2 has it: quoted strings unquoted, then percent-decoded UTF-8."""
    text = raw.decode("latin-1").strip()
    if text.startswith('"'):
        text = _QUOTED.sub(lambda match: re.sub(r"\\(.)", r"\1", match.group(1)), text)
    if not _PERCENT.search(text):
        decoded = text.encode("latin-1")
    else:
        decoded = unquote_to_bytes(text.encode("latin-1"))
    try:
        return decoded.decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedError(f"the header ce-{name} is not percent-encoded UTF-8") from None
