"""One stream's way through its tenant's topic: from where it left off, out of Kafka, then out of the feed's buffer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from lily_api.stream.feed import Feed
from lily_api.stream.positions import Positions
from lily_api.stream.topic import Entry, TopicReader

_CHUNK = 200


@dataclass(frozen=True)
class Source:
    """What a stream reads. `slots` bounds how many streams of the process read Kafka by themselves at once."""

    feed: Feed
    bootstrap: str
    slots: asyncio.Semaphore


async def follow(source: Source, positions: Positions, idle: float) -> AsyncIterator[Entry | None]:
    """Every entry after `positions`, once, in order per partition, for ever; None after `idle` seconds without one.

    `positions` moves along: when an entry is yielded it says what comes after it. Raises KafkaException when Kafka
    has to be asked and does not answer.
    """
    feed = source.feed
    number = -1
    while True:
        if number < feed.first:
            # At the start, or left behind by the buffer; which may have moved on while the reader was closed.
            while not feed.covers(positions):
                async for entry in _catch_up(source, positions):
                    yield entry
            number = feed.first
        entries = feed.entries_from(number, _CHUNK)
        if not entries:
            before = feed.first
            await feed.news(idle)
            if feed.first == before and not feed.entries_from(number, 1):
                yield None
            continue
        for entry in entries:
            number += 1
            if entry.offset >= positions.get(entry.partition, 0):
                positions[entry.partition] = entry.offset + 1
                yield entry


async def _catch_up(source: Source, positions: Positions) -> AsyncIterator[Entry]:
    """Read Kafka until the feed's buffer has all that is left."""
    async with source.slots:
        reader = await asyncio.to_thread(TopicReader, source.bootstrap, source.feed.topic)
        try:
            bounds = await asyncio.to_thread(reader.bounds)
            clamp(positions, bounds)
            await asyncio.to_thread(reader.assign, {partition: positions[partition] for partition in bounds})
            while not source.feed.covers(positions):
                for entry in await asyncio.to_thread(reader.read, 0.5):
                    positions[entry.partition] = entry.offset + 1
                    yield entry
        finally:
            await asyncio.to_thread(reader.close)


def clamp(positions: Positions, bounds: dict[int, tuple[int, int]]) -> None:
    """Move positions that cannot be had to the first that can: what retention has removed, or what lies beyond the
    end because the topic was made anew."""
    for partition, (low, high) in bounds.items():
        at = positions.get(partition, 0)
        positions[partition] = low if at < low or at > high else at
