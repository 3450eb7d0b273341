"""The producer without a broker: it must say so in time, and never claim."""

from __future__ import annotations

import asyncio
import time

import pytest

from lily_common.errors import UnavailableError
from lily_common.kafka import Producer, Record

NOWHERE = "127.0.0.1:1"
QUIET = {"log_level": 0}
RECORDS = [Record("t", b"k", b"v"), Record("t", b"k", b"v", [("h", b"1")])]


async def test_no_broker_is_503_after_the_time_given() -> None:
    producer = Producer(NOWHERE, **QUIET)
    started = time.monotonic()
    with pytest.raises(UnavailableError) as refused:
        await producer.send(RECORDS, seconds=0.3)
    assert 0.2 < time.monotonic() - started < 2
    assert "Retry-After" in refused.value.headers
    producer.close(0)


async def test_what_librdkafka_gives_up_is_503_too() -> None:
    producer = Producer(NOWHERE, **QUIET, **{"delivery.timeout.ms": 300})
    with pytest.raises(UnavailableError, match="did not acknowledge"):
        await producer.send(RECORDS)
    producer.close(0)


async def test_a_full_queue_is_503_at_once() -> None:
    producer = Producer(NOWHERE, **QUIET, **{"queue.buffering.max.messages": 10})
    with pytest.raises(UnavailableError) as refused:
        await producer.send(RECORDS * 10)
    assert refused.value.code == "overloaded"
    producer.close(0)


async def test_a_cancelled_request_leaves_nothing_behind() -> None:
    producer = Producer(NOWHERE, **QUIET, **{"delivery.timeout.ms": 300})
    task = asyncio.create_task(producer.send(RECORDS, seconds=5))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(UnavailableError):
        await producer.send(RECORDS)
    assert producer.close(10) == 0


async def test_nothing_to_send_is_sent() -> None:
    await Producer(NOWHERE, **QUIET).send([])
