"""Which event identities bronze holds: an index on the local disk, of the identities of the last days.

Spark's own `dropDuplicatesWithinWatermark` walks through its whole state in every batch to find what has expired; with
a week of identities that costs seconds a batch. This index (RocksDB) looks up what a batch brings and nothing else,
and expires what is old while it compacts.

An identity belongs to the message that brought it first: the index knows that message's place in Kafka, so that a
message read again (after a crash, or by a checkpoint that starts anew) is told from a repeat.

It cannot disagree with bronze. Identities are claimed here before the commit that brings them, under a sequence
number that the commit carries as its transaction; `settle` compares the two, takes back a claim whose commit never
came, and builds the index anew from bronze when either side has been lost or set back. The sequence number is the
commit's number in bronze: an index that is built anew counts on from the last one.
"""

from __future__ import annotations

import json
import struct
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
from rocksdict import AccessType, BlockBasedOptions, Cache, Options, Rdict, WriteBatch

from lily_common.logs import get_logger

log = get_logger(__name__)

_META, _PENDING = b"meta", b"pending"
_DIGEST = 16
#: body hash, hash of the place in Kafka, minute when seen
_ENTRY = struct.Struct(">8s8sI")
#: Body of identities that were read back from bronze: not known, so that a repeat of it counts as a plain repeat.
_UNKNOWN_BODY = bytes(8)
_IDENTITY = ("tenant", "source", "id")
_PLACE = ("topic", "partition", "offset")
_BODY = ("type", "subject", "data")


@dataclass
class Verdict:
    """What a batch's rows are. `new` and `kept` are row numbers: of first arrivals that bronze lacks, and of all
    messages that own their identity (new ones, and old ones that were read again)."""

    new: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    repeats: int = 0
    conflicts: int = 0
    claims: dict[bytes, bytes] = field(default_factory=dict)


class Identities:
    """The index in `folder`, which remembers an identity for `days`. One process at a time; not thread-safe."""

    def __init__(self, folder: Path, days: int) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._minutes = days * 24 * 60
        # A day more than is asked for: expiry is decided on reading, to the minute.
        self._db = Rdict(str(folder), _options(), access_type=AccessType.with_ttl((days + 1) * 24 * 3600))
        self._id, self._sequence = self._meta()

    @property
    def app_id(self) -> str:
        """Transaction application of the commits that this index's claims belong to."""
        return f"lily/events/{self._id}"

    def judge(self, events: pa.Table) -> Verdict:
        """Tell new from known, repeated and conflicting rows. The first in the table's order wins an identity."""
        verdict = Verdict()
        now = int(time.time() / 60)
        rows = list(_entries(events, now))
        for number, ((digest, entry), held) in enumerate(zip(rows, self._lookup(rows, now), strict=True)):
            owner = verdict.claims.get(digest, held)
            if owner is None:
                verdict.claims[digest] = entry
                verdict.new.append(number)
                verdict.kept.append(number)
            elif owner[8:16] == entry[8:16]:
                verdict.kept.append(number)
            elif owner[:8] in (entry[:8], _UNKNOWN_BODY):
                verdict.repeats += 1
            else:
                verdict.conflicts += 1
        return verdict

    def claim(self, verdict: Verdict) -> int:
        """Note the new identities and return the sequence number that the commit of their rows must carry."""
        sequence = self._sequence + 1
        batch = WriteBatch(raw_mode=True)
        for digest, entry in verdict.claims.items():
            batch.put(digest, entry)
        batch.put(_PENDING, b"".join(verdict.claims))
        batch.put(_META, _meta_bytes(self._id, sequence))
        self._db.write(batch)
        self._sequence = sequence
        return sequence

    def settle(self, committed: int | None, last_commit: int = 0) -> bool:
        """Agree with the table, whose last commit of `app_id` carried `committed`; False when `rebuild` is needed.

        `last_commit` is the greatest number that a commit of the table has, whoever gave it.

        To be called before the first batch and after any failure.
        """
        if committed is None or committed < last_commit:
            return False
        if committed == self._sequence:
            return True
        if committed == self._sequence - 1:
            self._take_back(committed)
            return True
        return False

    def rebuild(self, held: Iterable[pa.Table], last_commit: int = 0) -> None:
        """Begin anew under a new id, knowing the identities of `held` (tenant, source, id and place in Kafka).

        Numbers go on from `last_commit`.
        """
        self._id, self._sequence = uuid.uuid4().hex, last_commit
        self._db.delete_range(b"", b"\xff" * (_DIGEST + 1))
        count = 0
        for table in held:
            batch = WriteBatch(raw_mode=True)
            for digest, entry in _entries(table, int(time.time() / 60)):
                batch.put(digest, entry)
            self._db.write(batch)
            count += table.num_rows
        self._db.put(_META, _meta_bytes(self._id, last_commit))
        log.info("identity index built from bronze", identities=count, last_commit=last_commit)

    def close(self) -> None:
        self._db.close()

    def _take_back(self, sequence: int) -> None:
        pending = self._db.get(_PENDING) or b""
        batch = WriteBatch(raw_mode=True)
        for start in range(0, len(pending), _DIGEST):
            batch.delete(pending[start : start + _DIGEST])
        batch.delete(_PENDING)
        batch.put(_META, _meta_bytes(self._id, sequence))
        self._db.write(batch)
        self._sequence = sequence
        log.info("claims taken back", identities=len(pending) // _DIGEST)

    def _lookup(self, rows: Sequence[tuple[bytes, bytes]], now: int) -> Iterator[bytes | None]:
        """What the index holds of each row's identity, None when it is too old to count."""
        found: list[bytes | None] = self._db.get([digest for digest, _ in rows]) if rows else []  # type: ignore[assignment]
        for held in found:
            fresh = held is not None and _ENTRY.unpack(held)[2] + self._minutes > now
            yield held if fresh else None

    def _meta(self) -> tuple[str, int]:
        stored = self._db.get(_META)
        if stored is None:
            return "", 0
        held = json.loads(stored)
        return held["id"], held["sequence"]


def _entries(rows: pa.Table, now: int) -> Iterator[tuple[bytes, bytes]]:
    """(identity digest, entry) of each row."""
    columns = {name: rows[name].to_pylist() for name in (*_IDENTITY, *_PLACE)}
    bodies = [rows[name].to_pylist() for name in _BODY] if "data" in rows.column_names else None
    places = zip(*(columns[name] for name in _PLACE), strict=True)
    for number, (identity, place) in enumerate(
        zip(zip(*(columns[name] for name in _IDENTITY), strict=True), places, strict=True)
    ):
        body = _hash(tuple(column[number] for column in bodies), 8) if bodies else _UNKNOWN_BODY
        yield _hash(identity, _DIGEST), _ENTRY.pack(body, _hash(place, 8), now)


def _hash(parts: tuple[object, ...], size: int) -> bytes:
    """Digest of texts and numbers; NUL parts them, which no attribute of an event may hold."""
    return blake2b("\0".join(map(str, parts)).encode("utf-8", "surrogatepass"), digest_size=size).digest()


def _meta_bytes(index: str, sequence: int) -> bytes:
    return json.dumps({"id": index, "sequence": sequence}).encode()


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(8 << 20)
    options.set_max_write_buffer_number(2)
    options.set_max_total_wal_size(32 << 20)
    options.set_max_open_files(64)
    table = BlockBasedOptions()
    table.set_block_cache(Cache(16 << 20))
    table.set_bloom_filter(10, False)
    table.set_cache_index_and_filter_blocks(True)
    options.set_block_based_table_factory(table)
    return options
