"""Heartbeats reach every pair of partitions that a change can take."""

from __future__ import annotations

from aiokafka.partitioner import murmur2 as reference
from hypothesis import given
from hypothesis import strategies as st

from lily_common import heartbeats


@given(st.binary(max_size=200))
def test_the_hash_is_kafkas(data: bytes) -> None:
    assert heartbeats.murmur2(data) & 0x7FFFFFFF == reference(data) & 0x7FFFFFFF


@given(st.integers(1, 12), st.integers(1, 12), st.binary(min_size=1, max_size=60))
def test_some_heartbeat_goes_the_way_of_any_key(inbound: int, outbound: int, key: bytes) -> None:
    def way(key: bytes) -> tuple[int, int]:
        hashed = reference(key) & 0x7FFFFFFF
        return hashed % inbound, hashed % outbound

    ways = [way(heartbeat) for heartbeat in heartbeats.keys(inbound, outbound)]
    assert ways.count(way(key)) == 1


def test_what_a_heartbeat_is() -> None:
    assert all(map(heartbeats.is_heartbeat, heartbeats.keys(3, 2)))
    assert not heartbeats.is_heartbeat(b"acme|postgres://db/t")
    assert not heartbeats.is_heartbeat(None)
