"""The contract of a sink: how a notice leaves Lily.

A sink is a `Config` and a `Sink`, tied by `kind`. Adding one is a folder `vendors/<name>/` with `config.py`
(`Config`, a Pydantic model: the stored configuration, its JSON Schema and the console's form) and `outbound.py`
(`SINK`, the class below). Nothing else is touched: `lily_connectors.sinks.catalogue` finds it by its folder.

What egress promises a sink
- `render` is pure: the same notice, configuration and time give the same bytes. It is called once per attempt.
- `send` is thin: it passes what was rendered to one of `Ports` and returns an `Outcome`. It does not retry, keep
  order or write anything; egress does. It may raise: an exception counts as a failed attempt, its text is recorded.
- Deliveries of one (subscription, asset) are sent one after the other; others in parallel, up to `concurrency`.
- The delivery id is the same at every attempt and after every crash: receivers drop repeats by it.

The other direction, a vendor's calls to Lily, is `lily_connectors.inbound`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import orjson

from lily_common.kafka import Record
from lily_connectors.config import ConnectorConfig

#: How much of a response is kept with the attempt, in bytes.
SNIPPET_BYTES = 1024


class SinkConfig(ConnectorConfig):
    """What a tenant sets for one subscription's sink. Fields of type `SecretStr` are never shown again."""

    def urls(self) -> Mapping[str, str]:
        """Field name → URL that will be called, for the early check of its address."""
        return {}


@dataclass(frozen=True, slots=True)
class OutboundNotice:
    """One thing to tell. `body` is the CloudEvent (structured mode JSON, UTF-8) with the extension `transition`."""

    delivery_id: str
    tenant: str
    type: str
    subject: str
    transition: str
    body: bytes

    def event(self) -> dict[str, Any]:
        """The CloudEvent as a decoded JSON object."""
        decoded: dict[str, Any] = orjson.loads(self.body)
        return decoded


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A POST to make. Its repr does not show headers or path: they may hold secrets."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attempt went.

    `gone` says that the receiver wants no more (the subscription is disabled). `retry_after` is the receiver's wish,
    in seconds. `snippet` is the start of its answer, at most `SNIPPET_BYTES`.
    """

    ok: bool
    status_code: int | None = None
    error: str | None = None
    snippet: str = ""
    retry_after: float | None = None
    gone: bool = False


class HttpPort(Protocol):
    """Sends HTTP requests to addresses that the guard lets through; never follows a redirect."""

    async def post(self, request: HttpRequest, *, within: float) -> Outcome: ...


class KafkaPort(Protocol):
    """Appends records; returns when all in-sync replicas have them. Creates the topic when it is not there."""

    async def append(self, record: Record) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """The ways out that a worker has."""

    http: HttpPort
    kafka: KafkaPort


ConfigT = TypeVar("ConfigT", bound=SinkConfig)
RenderedT = TypeVar("RenderedT")


class Sink(ABC, Generic[ConfigT, RenderedT]):
    """One subscription's way out. `signing` holds the secrets that are good now, newest first."""

    kind: ClassVar[str]
    config_model: ClassVar[type[SinkConfig]]
    #: Whether Lily makes up a signing secret for each subscription of this kind.
    signed: ClassVar[bool] = False
    #: Most attempts of one subscription at a time.
    concurrency: ClassVar[int] = 16

    def __init__(self, config: ConfigT, signing: Sequence[str] = ()) -> None:
        self.config = config
        self.signing = tuple(signing)

    @abstractmethod
    def render(self, notice: OutboundNotice, now: datetime) -> RenderedT:
        """What to send for `notice` at `now` (aware, UTC). Pure."""

    @abstractmethod
    async def send(self, rendered: RenderedT, ports: Ports, within: float) -> Outcome:
        """Send it once, in at most `within` seconds."""


class HttpSink(Sink[ConfigT, HttpRequest]):
    """A sink that is one HTTP POST: only `render` is left to write."""

    async def send(self, rendered: HttpRequest, ports: Ports, within: float) -> Outcome:
        return await ports.http.post(rendered, within=within)


AnySink = Sink[Any, Any]
