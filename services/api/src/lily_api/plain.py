"""What the plain ways ahead of the framework share (`ingest.fastpath`, `enforcement.fastpath`)."""

from __future__ import annotations

from typing import Final

from starlette.types import Message, Receive, Send

#: Headers that ask for something that only the ordinary way gives.
UNUSUAL: Final = frozenset(
    {b"content-encoding", b"transfer-encoding", b"x-lily-tenant", b"x-request-id", b"expect"}
)


def replayed(first: Message, receive: Receive) -> Receive:
    """`receive` with the message that was taken already in front."""
    pending: list[Message] = [first]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again


async def answer(send: Send, status: int, request_id: str, body: bytes) -> None:
    """Send a JSON answer."""
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", request_id.encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
