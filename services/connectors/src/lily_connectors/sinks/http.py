"""The HTTP port: one pooled client for all subscriptions, guarded, without redirects, cookies, proxies or limits on waiting.

aiohttp rather than httpx: a pooled POST costs it about 60 µs of CPU against 1.6 ms, and CPU is what bounds deliveries a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.abc import AbstractResolver

from lily_connectors.contract import SNIPPET_BYTES, HttpRequest, Outcome
from lily_connectors.ssrf import BlockedAddressError, Guard

CONNECT_SECONDS = 5.0
#: What is read of an answer before the connection is dropped rather than kept, in bytes.
MAX_ANSWER_BYTES = 16 * 1024
#: Idle connections are kept this long, in seconds.
KEEPALIVE_SECONDS = 30.0
#: A receiver may not ask for a longer pause than this, in seconds.
MAX_RETRY_AFTER = 24 * 3600.0


def retry_after_seconds(value: str | None, now: datetime) -> float | None:
    """The Retry-After header (RFC 9110, 10.2.3: seconds or an HTTP date) in seconds, or None when absent or broken."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return min(float(value), MAX_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max((moment - now).total_seconds(), 0.0), MAX_RETRY_AFTER)


def outcome_of(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Outcome:
    """2xx delivers, 410 ends the subscription (Standard Webhooks), everything else is tried again."""
    snippet = body[:SNIPPET_BYTES].decode("utf-8", "replace").replace("\x00", "")
    if 200 <= status < 300:
        return Outcome(True, status, snippet=snippet)
    return Outcome(
        False,
        status,
        error=f"answered {status}",
        snippet=snippet,
        retry_after=retry_after_seconds(headers.get("Retry-After"), now),
        gone=status == 410,
    )


class GuardedHttp:
    """Implements `HttpPort`. Open it with `async with`, in the loop that uses it."""

    def __init__(self, guard: Guard, *, resolver: AbstractResolver | None = None) -> None:
        self._guard = guard
        self._resolver = resolver
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def __aenter__(self) -> GuardedHttp:
        self._sessions = {"https": self._session(plain=False), "http": self._session(plain=True)}
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in self._sessions.values():
            await session.close()

    def _session(self, *, plain: bool) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=0,  # egress bounds attempts by subscription and tenant
            keepalive_timeout=KEEPALIVE_SECONDS,
            resolver=self._resolver,
            socket_factory=cast(Any, partial(self._guard.socket_factory, plain=plain)),
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            headers={"User-Agent": "Lily/1 (+webhooks)", "Accept-Encoding": "identity"},
        )

    async def post(self, request: HttpRequest, *, within: float) -> Outcome:
        """One POST. Never raises for what the network or the receiver does: that is the outcome."""
        session = self._sessions[request.url.partition(":")[0].lower()]
        limits = aiohttp.ClientTimeout(total=within, sock_connect=min(CONNECT_SECONDS, within))
        try:
            async with session.post(
                request.url, data=request.body, headers=request.headers, allow_redirects=False, timeout=limits
            ) as response:
                body = await _read(response)
                return outcome_of(response.status, response.headers, body, datetime.now(UTC))
        except TimeoutError as late:
            kind = "no connection" if isinstance(late, aiohttp.ConnectionTimeoutError) else "no answer"
            return Outcome(False, error=f"timeout: {kind} in time (at most {within:g} s)")
        except (aiohttp.ClientError, OSError, ValueError) as failed:
            return Outcome(False, error=_describe(failed))


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The start of the answer. What is longer than the cap is dropped with its connection."""
    read = bytearray()
    while len(read) < MAX_ANSWER_BYTES:
        chunk = await response.content.read(MAX_ANSWER_BYTES - len(read))
        if not chunk:
            return bytes(read)
        read += chunk
    response.close()
    return bytes(read)


def _describe(failed: BaseException) -> str:
    """One line without the URL (it may hold a secret)."""
    seen: BaseException | None = failed
    while seen is not None:
        if isinstance(seen, BlockedAddressError):
            return f"address refused: {seen}"
        seen = getattr(seen, "os_error", None) or seen.__cause__
    if isinstance(failed, aiohttp.ClientConnectorDNSError):
        return "name look-up failed"
    if isinstance(failed, aiohttp.ClientConnectorCertificateError):
        return "TLS certificate not accepted"
    if isinstance(failed, aiohttp.ClientSSLError):
        return "TLS handshake failed"
    if isinstance(failed, aiohttp.ClientConnectorError):
        return f"connection failed: {failed.os_error.strerror or type(failed.os_error).__name__}"
    if isinstance(failed, aiohttp.InvalidURL):
        return "the URL cannot be read"
    return f"{type(failed).__name__}: connection broke"
