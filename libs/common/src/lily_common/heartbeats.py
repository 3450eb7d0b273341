"""Heartbeats: messages that travel with the changes, by which a reader of notices knows up to when it has seen all.

A heartbeat goes through each pair of partitions that a change can take: the one of `lily.changes.priority` that its key
leads to, and the one of `lily.notices`. Whatever was accepted before it on that way has come out before it.
"""

from __future__ import annotations

from math import lcm
from typing import Final

KEY_PREFIX: Final = b"lily.heartbeat/"
_MASK = 0xFFFFFFFF


def is_heartbeat(key: bytes | str | None) -> bool:
    """By a message's key. No asset's key is like this: it begins with a tenant's name, which has no dot."""
    return isinstance(key, bytes) and key.startswith(KEY_PREFIX)


def keys(inbound: int, outbound: int) -> tuple[bytes, ...]:
    """One key for each pair of partitions that a key can lead to, of topics with so many partitions."""
    found: dict[tuple[int, int], bytes] = {}
    number = 0
    while len(found) < lcm(inbound, outbound):
        key = KEY_PREFIX + str(number).encode()
        hashed = murmur2(key) & 0x7FFFFFFF
        found.setdefault((hashed % inbound, hashed % outbound), key)
        number += 1
    return tuple(found.values())


def murmur2(data: bytes) -> int:
    """Kafka's hash of keys, unsigned: its default partition is `(murmur2(key) & 0x7fffffff) % partitions`.

    Formula: MurmurHash2 of Austin Appleby with the seed of `org.apache.kafka.common.utils.Utils.murmur2`.
    """
    multiplier, length = 0x5BD1E995, len(data)
    hashed = 0x9747B28C ^ length
    whole = length & ~3
    for place in range(0, whole, 4):
        word = int.from_bytes(data[place : place + 4], "little") * multiplier & _MASK
        word = (word ^ word >> 24) * multiplier & _MASK
        hashed = (hashed * multiplier & _MASK) ^ word
    if length != whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * multiplier & _MASK
    hashed = (hashed ^ hashed >> 13) * multiplier & _MASK
    return hashed ^ hashed >> 15
