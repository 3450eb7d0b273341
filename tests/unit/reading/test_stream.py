"""A stream sees every event once and in order, wherever it begins and however the buffer moves on under it."""

import asyncio
import random

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lily_api.stream import feed as feeds
from lily_api.stream import follow as following
from lily_api.stream import positions as ids
from lily_api.stream.feed import Feed
from lily_api.stream.filters import StreamFilter, full_types
from lily_api.stream.follow import Source, clamp, follow
from lily_api.stream.topic import Entry
from lily_common.errors import InvalidInputError


class Log:
    """A topic of three partitions that a fake reader reads."""

    def __init__(self):
        self.partitions = {0: [], 1: [], 2: []}
        self.lows = dict.fromkeys(self.partitions, 0)

    def append(self, partition, text):
        entry = Entry(partition, len(self.partitions[partition]), text.encode())
        self.partitions[partition].append(entry)
        return entry

    def reader(self, _bootstrap, _topic):
        return Reader(self)


class Reader:
    def __init__(self, log):
        self._log = log

    def bounds(self):
        return {number: (self._log.lows[number], len(log)) for number, log in self._log.partitions.items()}

    def assign(self, positions):
        self._at = dict(positions)

    def read(self, _seconds):
        found = []
        for number, at in self._at.items():
            found += self._log.partitions[number][at : at + 3]
            self._at[number] = min(at + 3, len(self._log.partitions[number]))
        return found

    def close(self):
        pass


class QuietFeed(Feed):
    """A feed without its thread: the test hands entries over."""

    def _run(self):
        pass


@pytest.fixture
def log(monkeypatch):
    made = Log()
    monkeypatch.setattr(following, "TopicReader", made.reader)
    return made


def new_feed(log):
    feed = QuietFeed("", "lily.t.events")
    feed._attached({number: len(entries) for number, entries in log.partitions.items()})
    return feed


async def take(feed, positions, count):
    source = Source(feed, "", asyncio.Semaphore(1))
    seen = []
    async for entry in follow(source, positions, 0.05):
        if entry is not None:
            seen.append(entry)
        if len(seen) == count:
            break
    return seen


def in_order(seen):
    return {
        partition: [entry.offset for entry in seen if entry.partition == partition]
        for partition in {entry.partition for entry in seen}
    }


async def test_a_new_stream_begins_now(log):
    for number in range(5):
        log.append(number % 3, "old")
    feed = new_feed(log)
    positions = dict(feed.ends)
    feed._append([log.append(1, "new"), log.append(2, "new")])
    assert [entry.value for entry in await take(feed, positions, 2)] == [b"new", b"new"]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), room=st.integers(1, 30))
async def test_a_resumed_stream_gets_everything_once(seed, room):
    chance = random.Random(seed)
    log = Log()
    patch = pytest.MonkeyPatch()
    patch.setattr(following, "TopicReader", log.reader)
    patch.setattr(feeds, "MAX_ENTRIES", room)
    try:
        for number in range(40):
            log.append(chance.randrange(3), str(number))
        start = {number: chance.randint(0, len(entries)) for number, entries in log.partitions.items()}
        feed = new_feed(log)
        positions = ids.decode(ids.encode(start))

        async def produce():
            for number in range(40, 100):
                feed._append([log.append(chance.randrange(3), str(number))])
                if chance.random() < 0.05:  # the feed's reader was cut off and began anew at the end
                    feed._attached({key: len(entries) for key, entries in log.partitions.items()})
                if chance.random() < 0.3:
                    await asyncio.sleep(0)

        producing = asyncio.create_task(produce())
        expected = {p: list(range(at, 10**6)) for p, at in start.items()}
        if chance.random() < 0.5:
            await producing
        total = 100 - sum(start.values())
        seen = await asyncio.wait_for(take(feed, positions, total), 20)
        await producing
        for partition, offsets in in_order(seen).items():
            assert offsets == expected[partition][: len(offsets)]
        assert positions == {number: len(entries) for number, entries in log.partitions.items()}
    finally:
        patch.undo()


async def test_what_retention_removed_is_skipped(log):
    for _ in range(9):
        log.append(0, "x")
    log.lows[0] = 6
    feed = new_feed(log)
    seen = await take(feed, {0: 2, 1: 0, 2: 0}, 3)
    assert in_order(seen) == {0: [6, 7, 8]}


async def test_a_topic_that_comes_to_be_later(log):
    feed = QuietFeed("", "lily.t.events")
    feed._attached({})
    positions = dict(feed.ends)
    assert ids.encode(positions) == "0"
    resumed = ids.decode("0")
    feed._attached(dict.fromkeys(log.partitions, 0))
    feed._append([log.append(0, "a"), log.append(2, "b")])
    assert [entry.value for entry in await take(feed, positions, 2)] == [b"a", b"b"]
    assert [entry.value for entry in await take(feed, resumed, 2)] == [b"a", b"b"]


async def test_idle_is_told(log):
    feed = new_feed(log)
    source = Source(feed, "", asyncio.Semaphore(1))
    async for entry in follow(source, dict(feed.ends), 0.01):
        assert entry is None
        break


def test_positions_beyond_a_recreated_topic_begin_anew():
    positions = {0: 50, 1: 3}
    clamp(positions, {0: (0, 10), 1: (0, 10), 2: (4, 9)})
    assert positions == {0: 0, 1: 3, 2: 4}


@given(st.dictionaries(st.integers(0, 6), st.integers(0, 10**17), max_size=7))
def test_ids_come_back(positions):
    decoded = ids.decode(ids.encode(positions))
    assert {key: at for key, at in decoded.items() if at} == {key: at for key, at in positions.items() if at}


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "1--2", "1" * 19, "1-2\n", "-".join("1" * 300)])
def test_a_wrong_id_is_refused(text):
    with pytest.raises(InvalidInputError):
        ids.decode(text)


def test_filters():
    event = {"type": "lily.classification.attached", "subject": "pg://s/t", "data": {"tag": "PII"}}
    assert StreamFilter().passes_all
    assert StreamFilter(full_types(["classification.attached"]), frozenset({"PII"}), "pg://s").matches(event)
    assert not StreamFilter(full_types(["lily.asset.deleted"])).matches(event)
    assert not StreamFilter(tags=frozenset({"GDPR"})).matches(event)
    assert not StreamFilter(asset_prefix="pg://x").matches(event)
    with pytest.raises(InvalidInputError, match="not streamed"):
        full_types(["asset.upserted"])


def test_an_entry_reads_its_event_once():
    entry = Entry(0, 0, orjson.dumps({"type": "x"}))
    assert entry.event is entry.event
    assert Entry(0, 0, b"[]").event == {}
