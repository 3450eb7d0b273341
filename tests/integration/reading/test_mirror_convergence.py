"""Whatever order, repetition, batching and lane: the mirror ends as `lily_common.state.fold` says."""

import threading
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zlib import crc32

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lily_common import state
from lily_common.documents import ASSETS, EDGES, IDENTITIES, INCIDENTS, TOUCHED, decode_registers
from lily_common.envelope import accept
from lily_spark.mirror.changes import Message
from lily_spark.mirror.chunk import mirror_chunk
from lily_spark.mirror.store import open_mirror

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ASSET_NAMES = ["pg://s/d/t", "pg://s/d/t/email", "bi://x/ünï 😀.$%41"]
TAGS = ["PII", "GD.PR", "$odd%24"]

names = st.sampled_from(ASSET_NAMES)
tags = st.fixed_dictionaries(
    {"qualified_name": names, "tag": st.sampled_from(TAGS), "origin": st.sampled_from(["direct", "job|a"])}
)
scalars = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**64 - 1),
    st.text(max_size=5),
    st.floats(allow_nan=False, allow_infinity=False),
)
fields = st.dictionaries(
    st.sampled_from(["name", "owners.x", "$note", "score", "parent"]), scalars, max_size=3
)
upserts = st.builds(
    lambda name, kind, aspect, extra: {"qualified_name": name, "asset_type": kind, "aspect": aspect, **extra},
    names,
    st.sampled_from(["table", "column"]),
    st.sampled_from(["core", "quality"]),
    st.fixed_dictionaries({}, optional={"description": st.text(max_size=5), "x.$y\x00": scalars}),
)
patches = st.builds(
    lambda name, aspect, sets, unset: {"qualified_name": name, "aspect": aspect, "set": sets, "unset": unset},
    names,
    st.sampled_from(["core", "quality"]),
    fields,
    st.lists(st.sampled_from(["name", "score"]), max_size=1),
)
edges = st.fixed_dictionaries(
    {"upstream": names, "downstream": names, "kind": st.sampled_from(["table", "column"])},
    optional={"via": st.just("job://j")},
)
incidents = st.fixed_dictionaries(
    {"qualified_name": names, "incident_id": st.sampled_from(["1", "a|b"]), "title": st.text(max_size=3)}
)
payloads = st.one_of(
    upserts.map(lambda data: ("asset.upserted", data)),
    patches.map(lambda data: ("asset.patched", data)),
    names.map(lambda name: ("asset.deleted", {"qualified_name": name})),
    tags.map(lambda data: ("classification.attached", data)),
    tags.map(lambda data: ("classification.detached", data)),
    edges.map(lambda data: ("lineage.edge.added", data)),
    edges.map(lambda data: ("lineage.edge.removed", data)),
    incidents.map(lambda data: ("incident.opened", data)),
    incidents.map(lambda data: ("incident.resolved", data)),
    names.map(lambda name: ("owner.changed", {"qualified_name": name, "owners": ["ann"]})),
)


@st.composite
def histories(draw):
    """(messages per topic partition in log order, accepted events): repeats keep their body, as a retry does."""
    made = draw(
        st.lists(st.tuples(payloads, st.integers(0, 20), st.sampled_from("ab")), min_size=1, max_size=14)
    )
    events = []
    for number, ((kind, data), seconds, source) in enumerate(made):
        time = None if seconds == 20 else (NOW + timedelta(seconds=seconds)).isoformat()
        envelope = {
            "specversion": "1.0",
            "id": str(number),
            "source": source,
            "type": f"lily.{kind}",
            "data": data,
        }
        events.append(accept("shop", envelope | ({"time": time} if time else {}), NOW + timedelta(hours=1)))
    sent = draw(st.permutations(events + draw(st.lists(st.sampled_from(events), max_size=6))))
    logs = defaultdict(list)
    for event in sent:
        partition = crc32(event.key) % 2
        log = logs[event.topic, partition]
        position = f"{event.topic}/{partition}/{len(log)}"
        log.append(Message(event.key.decode(), event.value.decode(), position))
    return logs, [orjson.loads(event.value) for event in events]


def _lane(logs, lane, config, cuts, again):
    """One lane's query: its partitions in micro-batches of random size, some of them run twice (a replay)."""
    mirror = open_mirror(config)
    for (topic, _), log in logs.items():
        if lane in topic:
            start = 0
            while start < len(log):
                end = start + 1 + next(cuts)
                for _ in range(1 + next(again)):
                    mirror_chunk(mirror, log[start:end], config)
                start = end


def expected(events, name):
    return state.fold(event for event in events if event["subject"] == name)


def check(mirror, events):
    documents = {found["qualified_name"]: found for found in mirror[ASSETS].find({})}
    for name in ASSET_NAMES:
        whole = expected(events, name)
        if not whole:
            assert name not in documents
            continue
        want, found = state.assemble(whole), documents[name]
        got = state.assemble(decode_registers(found))
        assert (got.exists, got.deleted, got.version) == (want.exists, want.deleted, want.version)
        assert (got.fields, got.tags) == (want.fields, want.tags)
        assert found["tags"] == sorted(want.tags)
        assert found["deleted"] == want.deleted
        assert found["version"] == want.version
        check_relations(mirror, name, whole, found["tombstone"])


def check_relations(mirror, name, whole, tombstone):
    for collection, kind, owner in (
        (EDGES, "edge|", "downstream"),
        (INCIDENTS, "incident|", "qualified_name"),
    ):
        want = {
            register.version: dict(register.data) for key, register in whole.items() if key.startswith(kind)
        }
        found = {
            each["version"]: orjson.loads(each["data"]) for each in mirror[collection].find({owner: name})
        }
        assert found == want
    deleted = whole.get(state.DELETED)
    assert tombstone == (deleted.version if deleted else "")


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(history=histories(), chance=st.randoms(use_true_random=False))
def test_any_arrival_ends_the_same(config, history, chance):
    logs, events = history
    mirror = open_mirror(config)
    for collection in (ASSETS, EDGES, INCIDENTS, IDENTITIES):
        mirror[collection].delete_many({})
    numbers = [chance.randrange(3) for _ in range(200)]
    repeats = [int(chance.random() < 0.3) for _ in range(200)]
    failures: list[BaseException] = []

    def run(lane):
        try:
            _lane(logs, lane, config, iter(numbers), iter(repeats))
        except BaseException as failed:
            failures.append(failed)

    lanes = [threading.Thread(target=run, args=(lane,)) for lane in ("priority", "bulk")]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    assert not failures
    check(mirror, events)


def _message(event, offset, topic="lily.changes.priority"):
    return Message(event.key.decode(), event.value.decode(), f"{topic}/0/{offset}")


def _attach(number, *, tag="PII", time=None, **extra):
    data = {"qualified_name": "pg://s/d/t", "tag": tag, **extra}
    envelope = {"specversion": "1.0", "id": str(number), "source": "a", "data": data}
    if time:
        envelope["time"] = time.isoformat()
    return envelope | {"type": "lily.classification.attached"}


def test_many_writers_of_one_asset_lose_nothing(config, mirror):
    events = [accept("shop", _attach(n, tag=f"T{n}"), NOW + timedelta(seconds=n)) for n in range(60)]

    def write(part):
        for number in range(part, 60, 6):
            mirror_chunk(open_mirror(config), [_message(events[number], number)], config)

    threads = [threading.Thread(target=write, args=(part,)) for part in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mirror[ASSETS].find_one({})["tags"] == sorted(f"T{n}" for n in range(60))


def test_a_retry_is_a_repeat_even_when_its_time_was_stamped_anew(config, mirror):
    attach = accept("shop", _attach(1), NOW)
    detach = accept("shop", _attach(2) | {"type": "lily.classification.detached"}, NOW + timedelta(seconds=1))
    retried = accept("shop", _attach(1), NOW + timedelta(seconds=2))
    counts = mirror_chunk(mirror, [_message(attach, 0), _message(detach, 1)], config)
    assert (counts.repeats, counts.conflicts) == (0, 0)
    counts = mirror_chunk(mirror, [_message(retried, 2)], config)
    assert (counts.repeats, counts.conflicts, counts.written) == (1, 0, 0)
    assert mirror[ASSETS].find_one({})["tags"] == []


def test_same_id_with_another_body_the_first_wins_and_it_is_counted(config, mirror):
    first = accept("shop", _attach(1, tag="PII"), NOW)
    other = accept("shop", _attach(1, tag="GDPR"), NOW + timedelta(seconds=5))
    assert mirror_chunk(mirror, [_message(first, 0), _message(other, 1)], config).conflicts == 1
    assert (
        mirror_chunk(mirror, [_message(other, 1)], config).conflicts == 1
    )  # also when it comes later, again
    assert mirror_chunk(mirror, [_message(first, 0)], config).repeats == 0  # a replay of the first goes on
    assert mirror[ASSETS].find_one({})["tags"] == ["PII"]


def test_two_tenants_may_use_one_id(config, mirror):
    for number, tenant in enumerate(("shop", "bank")):
        mirror_chunk(mirror, [_message(accept(tenant, _attach(1), NOW), number)], config)
    assert {found["tenant"] for found in mirror[ASSETS].find({})} == {"shop", "bank"}


def test_what_cannot_be_read_is_counted_and_costs_the_good_ones_nothing(config, mirror):
    good = _message(accept("shop", _attach(1), NOW), 0)
    broken = [
        Message(None, text, f"t/0/{n}")
        for n, text in enumerate(
            ["", "{", "[]", "{}", "null", good.value.replace('"tag":"PII"', '"tag2":"PII"')]
        )
    ]
    counts = mirror_chunk(mirror, [*broken, good], config)
    assert (counts.unreadable, counts.rejects) == (len(broken), [])
    assert mirror[ASSETS].find_one({})["tags"] == ["PII"]


def test_sensitive_fields_never_reach_the_mirror(config, mirror):
    strict = replace(config, sensitive={"shop": frozenset({"ssn", "description"})})
    data = {"qualified_name": "pg://s/d/t", "asset_type": "table", "name": "t"}
    secret = {"ssn": "S3CRET", "description": "S3CRET", "properties": {"ssn": "S3CRET", "rows": 5}}
    patch = {
        "qualified_name": "pg://s/d/t",
        "set": {"ssn": "S3CRET", "rank": 1, "properties": {"ssn": "S3CRET"}},
    }
    envelopes = [
        {"type": "lily.asset.upserted", "data": data | secret},
        {"type": "lily.asset.patched", "data": patch},
        {
            "type": "lily.description.changed",
            "data": {"qualified_name": "pg://s/d/u", "description": "S3CRET"},
        },
        {
            "type": "lily.incident.opened",
            "data": {"qualified_name": "pg://s/d/t", "incident_id": "1", "title": "t", "ssn": "S3CRET"},
        },
        {
            "type": "lily.lineage.edge.added",
            "data": {"upstream": "pg://s/d/u", "downstream": "pg://s/d/t", "ssn": "S3CRET"},
        },
    ]
    base = {"specversion": "1.0", "source": "a"}
    messages = [
        _message(accept("shop", base | {"id": str(n)} | envelope, NOW + timedelta(seconds=n)), n)
        for n, envelope in enumerate(envelopes)
    ]
    mirror_chunk(mirror, messages, strict)
    everything = [*mirror[ASSETS].find({}), *mirror[EDGES].find({}), *mirror[INCIDENTS].find({})]
    assert len(everything) == 4
    assert "S3CRET" not in str(everything)
    core = state.assemble(decode_registers(mirror[ASSETS].find_one({"qualified_name": "pg://s/d/t"}))).core
    assert core["rank"] == 1
    assert core["asset_type"] == "table"
    touched = mirror[ASSETS].find_one({"qualified_name": "pg://s/d/u"})
    assert list(decode_registers(touched)) == [TOUCHED]


def test_an_asset_that_would_outgrow_a_document_is_refused_alone(config, mirror, monkeypatch):
    monkeypatch.setattr("lily_spark.mirror.assets._MEASURE_FROM", 1_000_000)
    monkeypatch.setattr("lily_spark.mirror.assets.MAX_DOCUMENT", 3_000_000)

    def patch(number, size, name="pg://big"):
        data = {"qualified_name": name, "set": {f"f{number}": "x" * size}}
        envelope = {"specversion": "1.0", "id": str(number), "source": "a", "type": "lily.asset.patched"}
        return _message(accept("shop", envelope | {"data": data}, NOW + timedelta(seconds=number)), number)

    for number in range(6):
        counts = mirror_chunk(mirror, [patch(number, 700_000), patch(100 + number, 10, "pg://small")], config)
        assert len(counts.rejects) == (0 if number < 4 else 1)
    assert len(mirror[ASSETS].find_one({"qualified_name": "pg://big"})["registers"]) == 4
    assert len(mirror[ASSETS].find_one({"qualified_name": "pg://small"})["registers"]) == 6
