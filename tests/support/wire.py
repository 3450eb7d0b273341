"""A small HTTP/1.1 client on asyncio and httptools: what the load generator sends with.

The generator shares two cores with what it measures, so that the client's own cost would be in every figure; this one
takes about a tenth of the CPU per request of the general-purpose clients. One request at a time per connection.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import httptools


class Connection(asyncio.Protocol):
    """One keep-alive connection. `ask` raises ConnectionError when it breaks before the answer is complete."""

    def __init__(self) -> None:
        self.open = False
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.open = True

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as broken:
            self._fail(ConnectionError(f"unreadable answer: {broken}"))

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        self._fail(ConnectionError(f"connection lost: {error or 'closed by the server'}"))

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status, body, keep = (
            self._parser.get_status_code(),
            b"".join(self._body),
            self._parser.should_keep_alive(),
        )
        self._body = []
        self._parser = httptools.HttpResponseParser(self)
        answer, self._answer = self._answer, None
        if not keep:
            self.close()
        if answer is not None and not answer.done():
            answer.set_result((status, body))

    def _fail(self, error: ConnectionError) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a whole request (head and body); the answer's status and body."""
        if not self.open or self._transport is None:
            raise ConnectionError("not connected")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        self.open = False
        if self._transport is not None:
            self._transport.close()


@dataclass
class Pool:
    """Connections to one server. `ask` opens another one when all are busy, up to `limit`, then waits for one."""

    url: str
    limit: int = 256
    timeout: float = 15.0
    _idle: list[Connection] = field(default_factory=list)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self._slots = asyncio.Semaphore(self.limit)

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Raises OSError (ConnectionError among them) or TimeoutError; then the request may have been carried out."""
        async with self._slots:
            connection: Connection | None = None
            try:
                async with asyncio.timeout(self.timeout):
                    connection = await self._take()
                    answer = await connection.ask(request)
            except BaseException:
                if connection is not None:
                    connection.close()
                raise
            if connection.open:
                self._idle.append(connection)
            return answer

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.open:
                return connection
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(Connection, self.host, self.port)
        return made

    def close(self) -> None:
        for connection in self._idle:
            connection.close()


def post(host: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
    """The bytes of a POST request."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
