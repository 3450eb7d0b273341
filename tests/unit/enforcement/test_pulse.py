"""What heartbeats that come back say, and what others' do not."""

from __future__ import annotations

import time

import orjson

from lily_api.enforcement.pulse import Pulse

LANES = (b"lily.heartbeat/0", b"lily.heartbeat/1")


def test_it_is_as_far_as_its_slowest_lane() -> None:
    pulse = Pulse(LANES)
    assert pulse.complete_until == float("-inf")
    before = time.monotonic()
    first, second = pulse.beat()
    assert {first.key, second.key} == set(LANES)
    pulse.note(LANES[0], first.value)
    assert pulse.complete_until == float("-inf")
    pulse.note(LANES[1], second.value)
    assert before <= pulse.complete_until <= time.monotonic()


def test_an_older_one_takes_nothing_back() -> None:
    pulse = Pulse(LANES[:1])
    (old,) = pulse.beat()
    (new,) = pulse.beat()
    pulse.note(LANES[0], new.value)
    known = pulse.complete_until
    pulse.note(LANES[0], old.value)
    assert pulse.complete_until == known


def test_others_say_nothing() -> None:
    pulse = Pulse(LANES[:1])
    (foreign,) = Pulse(LANES[:1]).beat()
    own = orjson.loads(pulse.beat()[0].value or b"")
    pulse.note(LANES[0], foreign.value)
    pulse.note(b"lily.heartbeat/7", orjson.dumps(own))
    for junk in (None, b"", b"[]", b"{}", b'{"by": "x", "at": "soon"}'):
        pulse.note(LANES[0], junk)
    assert pulse.complete_until == float("-inf")
