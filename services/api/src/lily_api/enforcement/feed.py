"""The view kept current: filled from PostgreSQL, then following the notices, with heartbeats that tell how far it is.

Heartbeats are sent only while questions are asked: the first after a pause waits for one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from confluent_kafka import KafkaException
from sqlalchemy.exc import SQLAlchemyError

from lily_api.enforcement.declared import LOOK_SECONDS, Declared, DeclaredView
from lily_api.enforcement.notices import NoticeReader
from lily_api.enforcement.pulse import Pulse
from lily_api.enforcement.registers import fill
from lily_api.enforcement.view import TagView
from lily_api.policies.bundle import Bundles
from lily_api.services import Services
from lily_common import heartbeats
from lily_common.errors import LilyError, UnavailableError
from lily_common.events import PRIORITY_TOPIC
from lily_common.logs import get_logger

log = get_logger(__name__)
#: Between two heartbeats, at most: each has the lake job plan a batch as well. Never more than a third of what is stale.
BEAT_SECONDS = 3.0
#: Heartbeats go on for so long after a question.
_LINGER_SECONDS = 10.0
#: An answer waits so long for a view that is out of date, before it is given blindly.
PATIENCE_SECONDS = 2.0
_GLANCE_SECONDS = 0.005
_BACKOFF_SECONDS = 1.0
_FAILURES = (KafkaException, SQLAlchemyError, LilyError, OSError, KeyError)


class Enforcement:
    """What answers are made of; lives in the event loop, but for the thread that reads notices."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.operators = services.settings.enforce_operator_names
        self._limit = services.settings.enforce_stale_seconds
        self._beat_seconds = min(BEAT_SECONDS, self._limit / 3)
        self._asked = float("-inf")
        self._wake = asyncio.Event()
        self.declared = DeclaredView()
        self.tags = TagView()
        #: Whether databases are kept, for which the notices are followed also where no engine asks.
        self.keeps_databases = False
        self._pulse: Pulse | None = None

    async def declared_of(self, tenant: str) -> Declared:
        """Raises UnavailableError while nothing is known of what any tenant has declared."""
        end = time.monotonic() + PATIENCE_SECONDS
        while self.declared.complete_until == float("-inf"):
            if time.monotonic() > end:
                raise UnavailableError("PostgreSQL is not answering, try again")
            await asyncio.sleep(_GLANCE_SECONDS)
        return self.declared.of(tenant)

    async def is_current(self) -> bool:
        """Whether the view holds all that was accepted until a moment ago; waits a little when it does not."""
        self._asked = time.monotonic()
        self._wake.set()
        end = self._asked + PATIENCE_SECONDS
        while self.age() > self._limit:
            if time.monotonic() > end:
                return False
            await asyncio.sleep(_GLANCE_SECONDS)
        return True

    def age(self) -> float:
        """Seconds since the moment of which the view is, in tags and declarations; infinite before its first."""
        tags = self._pulse.complete_until if self._pulse is not None else float("-inf")
        return time.monotonic() - min(tags, self.declared.complete_until)

    async def look(self) -> None:
        """Follow what is declared, for ever."""
        while True:
            try:
                await self.declared.look(self._services)
            except (SQLAlchemyError, OSError) as away:
                log.warning("declarations not read", error=str(away)[:300])
            await asyncio.sleep(LOOK_SECONDS)

    async def follow(self) -> None:
        """Follow the notices, for ever, once there is a mapping or a database to keep."""
        while True:
            if self.declared.in_use or self.keeps_databases:
                try:
                    await self._follow()
                except _FAILURES as away:
                    log.warning("enforcement's view begins anew", error=str(away)[:300])
                self._pulse = None
            await asyncio.sleep(_BACKOFF_SECONDS)

    async def _follow(self) -> None:
        services = self._services
        inbound = await asyncio.to_thread(services.producer.partitions, PRIORITY_TOPIC)
        reader = NoticeReader(services.settings.kafka_bootstrap)
        stop = threading.Event()
        reading: asyncio.Task[None] | None = None
        try:
            outbound = await asyncio.to_thread(reader.begin)
            view = TagView()
            await fill(view, services)
            pulse = Pulse(heartbeats.keys(inbound, outbound))
            reading = asyncio.create_task(asyncio.to_thread(reader.follow, view, pulse, stop))
            self.tags, self._pulse = view, pulse
            log.info("enforcement's view is filled", assets=len(view))
            await self._beat(pulse, reading)
        finally:
            stop.set()
            if reading is not None:
                with suppress(KafkaException):
                    await asyncio.shield(reading)
            await asyncio.to_thread(reader.close)

    async def _beat(self, pulse: Pulse, reading: asyncio.Task[None]) -> None:
        """Heartbeats while questions are asked, until the reading fails."""
        while not reading.done():
            if time.monotonic() - self._asked > _LINGER_SECONDS:
                self._wake.clear()
                waiting = asyncio.create_task(self._wake.wait())
                await asyncio.wait({waiting, reading}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                continue
            with suppress(UnavailableError):
                await self._services.producer.send(pulse.beat())
            await asyncio.wait({reading}, timeout=self._beat_seconds)
        await reading


@asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    """For as long as the API runs."""
    enforcement = Enforcement(services)
    services.put(enforcement)
    services.put(Bundles())
    tasks = [asyncio.create_task(enforcement.look()), asyncio.create_task(enforcement.follow())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
