"""Reading request bodies: decoded from their content encoding, never larger than the limit, whatever they claim."""

from __future__ import annotations

import zlib

from fastapi import Request

from lily_api.services import Services
from lily_common.errors import MalformedError, PayloadTooLargeError, UnsupportedMediaTypeError

_GZIP = 16 + zlib.MAX_WBITS


async def read_body(request: Request) -> bytes:
    """The body, decoded. `await request.body()` still gives the bytes as they came, for signatures and the archive.

    Raises PayloadTooLargeError (413, as sent or decoded), UnsupportedMediaTypeError (415, unknown encoding) and
    MalformedError (400, broken compression).
    """
    services: Services = request.app.state.lily
    raw = await request.body()
    encodings = [part.strip() for part in request.headers.get("content-encoding", "").lower().split(",")]
    encodings = [part for part in encodings if part not in ("", "identity")]
    if not encodings:
        return raw
    if len(encodings) > 1:
        raise UnsupportedMediaTypeError("more than one content encoding at once is not accepted")
    return decompress(raw, encodings[0], services.settings.max_body_bytes)


def decompress(raw: bytes, encoding: str, limit: int) -> bytes:
    """`raw` decoded from `gzip`, `x-gzip` or `deflate`, at most `limit` bytes of it; never inflates further."""
    if encoding in ("gzip", "x-gzip"):
        return _inflate_members(raw, limit)
    if encoding == "deflate":
        # RFC 9110 says zlib; some clients send the bare stream.
        try:
            return _inflate(raw, zlib.MAX_WBITS, limit)[0]
        except MalformedError:
            return _inflate(raw, -zlib.MAX_WBITS, limit)[0]
    raise UnsupportedMediaTypeError(
        f"content encoding {encoding[:40]!r} is not accepted; use gzip, deflate or identity"
    )


def _inflate_members(raw: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while raw:
        part, raw = _inflate(raw, _GZIP, limit - size)
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _inflate(raw: bytes, window: int, limit: int) -> tuple[bytes, bytes]:
    """One compressed stream: its content and what follows it."""
    inflater = zlib.decompressobj(window)
    try:
        content = inflater.decompress(raw, limit + 1)
    except zlib.error:
        raise MalformedError("the body is not what its Content-Encoding says") from None
    if len(content) > limit:
        raise PayloadTooLargeError("the decoded body is too large")
    if not inflater.eof:
        raise MalformedError("the compressed body ends too early")
    return content, inflater.unused_data
