"""Server-Sent Events as a client reads them (WHATWG HTML, section 9.2), with resumption by Last-Event-ID."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import httpx

from lily_cli.client import LilyClient, Params, unreachable

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 10.0


@dataclass(frozen=True, slots=True)
class Message:
    """One event of the stream; a heartbeat has no data. `id` is where the stream stands, empty when it never said."""

    event: str
    data: str
    id: str


@dataclass
class _Draft:
    event: str = ""
    data: list[str] = field(default_factory=list)
    moved: bool = False


def parse(lines: Iterable[str]) -> Iterator[Message]:
    """Messages from the lines of a stream. A frame with an id alone is one too, for the reader to go on from there."""
    draft, last_id = _Draft(), ""
    for line in lines:
        if not line:
            if draft.data or draft.moved:
                yield Message(draft.event or "message", "\n".join(draft.data), last_id)
            draft = _Draft()
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            draft.data.append(value)
        elif name == "event":
            draft.event = value
        elif name == "id" and "\x00" not in value:
            last_id, draft.moved = value, True


def follow(
    client: LilyClient,
    path: str,
    params: Params,
    *,
    last_event_id: str | None = None,
    on_break: Callable[[float], None] = lambda _seconds: None,
) -> Iterator[Message]:
    """Messages for ever: a broken connection is taken up again after the last id seen.

    Raises CliError when the very first connection fails, and ApiError whenever the server refuses.
    """
    seen, wait, connected = last_event_id, _FIRST_WAIT, False
    while True:
        try:
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": seen} if seen else {})}
            for message in parse(client.stream(path, params, headers)):
                connected, wait = True, _FIRST_WAIT
                seen = message.id or seen
                if message.data:
                    yield message
            connected = True  # the server ended it in order: it restarts, say
        except httpx.TransportError as failure:
            if not connected and isinstance(failure, httpx.ConnectError):
                raise unreachable(client.settings.url, failure) from None
            connected = True
        on_break(wait)
        time.sleep(wait)
        wait = min(wait * 2, _LONGEST_WAIT)
