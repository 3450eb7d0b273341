"""Change data on real servers: from messages in Debezium's form to tables of the lake, as they evolve and misbehave."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from tests.integration.spark.captured import Captured
from tests.integration.spark.process import JobProcess
from tests.support.debezium import Mongo, Postgres, decimal, of
from tests.support.poll import until
from tests.support.stack import Stack

from lily_common.events import DLQ_CDC_TOPIC, PRIORITY_TOPIC
from lily_common.kafka import header
from lily_spark.cdc.shape import PLACEHOLDER
from lily_spark.cdc.topics import Capture

pytestmark = pytest.mark.stack
Make = Callable[..., Captured]


@pytest.fixture
def captured(servers: Stack, request: pytest.FixtureRequest) -> Make:
    """Makes tables of a source of the test's own."""
    source = f"s{secrets.token_hex(3)}"

    def make(name: str = "public.t") -> Captured:
        return Captured(servers.environment, Capture("acme", source, name))

    return make


def _settles(table: Captured, expected: dict[tuple[Any, ...], dict[str, Any]], *key: str) -> None:
    def same() -> bool:
        assert table.latest(*key) == expected
        return True

    until(same, f"{table.capture.name} to be what was sent", deadline=60)


def _incidents(servers: Stack, start: dict[int, int], table: Captured) -> list[dict[str, Any]]:
    asset = f"cdc://{table.capture.source}/{table.capture.name.replace('.', '/')}"
    events = [orjson.loads(message.value() or b"") for message in servers.log.read(PRIORITY_TOPIC, start)]
    return [event for event in events if event["subject"] == asset]


def test_rows_come_change_and_go(servers: Stack, lake: JobProcess, captured: Make) -> None:
    table, users = captured(), Postgres({"id": of("int32"), "name": of("string")}, ("id",))
    table.send(users.create({"id": 1, "name": "one"}), users.create({"id": 2, "name": "two"}))
    _settles(table, {(1,): {"id": 1, "name": "one"}, (2,): {"id": 2, "name": "two"}}, "id")
    gone = users.delete({"id": 2})
    table.send(
        users.update({"id": 1, "name": None}), gone, (gone[0], None), users.create({"id": 3, "name": "x"})
    )
    _settles(table, {(1,): {"id": 1, "name": None}, (3,): {"id": 3, "name": "x"}}, "id")
    table.send(users.create({"id": 2, "name": "back"}))
    _settles(
        table,
        {(1,): {"id": 1, "name": None}, (2,): {"id": 2, "name": "back"}, (3,): {"id": 3, "name": "x"}},
        "id",
    )


def test_a_late_older_change_does_nothing_and_left_out_values_stay(
    servers: Stack, lake: JobProcess, captured: Make
) -> None:
    table, texts = captured(), Postgres({"id": of("int32"), "body": of("string"), "n": of("int32")}, ("id",))
    table.send(texts.create({"id": 1, "body": "long", "n": 1}))
    table.send(texts.update({"id": 1, "body": PLACEHOLDER, "n": 2}))
    _settles(table, {(1,): {"id": 1, "body": "long", "n": 2}}, "id")
    table.send(
        texts.update({"id": 1, "body": "older", "n": 0}, lsn=1), texts.create({"id": 2, "body": "b", "n": 0})
    )
    _settles(table, {(1,): {"id": 1, "body": "long", "n": 2}, (2,): {"id": 2, "body": "b", "n": 0}}, "id")


def test_columns_are_added_and_widened(servers: Stack, lake: JobProcess, captured: Make) -> None:
    table = captured()
    first = Postgres({"id": of("int32"), "price": decimal(6, 2), "n": of("int16")}, ("id",))
    table.send(first.create({"id": 1, "price": "BNI=", "n": 7}))
    until(lambda: len(table.rows()) == 1, "the first row")
    second = Postgres(first.columns | {"note": of("string")}, ("id",), lsn=2000)
    table.send(second.create({"id": 2, "price": "BNI=", "n": 8, "note": "new"}))
    until(lambda: len(table.latest("id")) == 2, "the added column")
    wide = {
        "id": of("int64"),
        "price": decimal(12, 4),
        "n": of("int64"),
        "note": of("string"),
        "f": of("double"),
    }
    third = Postgres(wide, ("id",), lsn=3000)
    table.send(third.create({"id": 2**40, "price": "BNI=", "n": 2**40, "note": None, "f": 0.5}))
    table.send(first.update({"id": 1, "price": "BNI=", "n": 9}, lsn=4000))  # a writer that is not there yet
    until(lambda: len(table.latest("id")) == 3, "the widened columns")
    until(lambda: table.latest("id")[(1,)]["n"] == 9, "the row of the old form")
    found = table.latest("id")
    assert [str(row["price"]) for _, row in sorted(found.items())] == ["12.3400", "12.3400", "0.1234"]
    assert [row["note"] for _, row in sorted(found.items())] == [None, "new", None]
    types = {
        field.name: str(field.type.type)
        for field in table.table().schema().fields
        if hasattr(field.type, "type")
    }
    assert (types["id"], types["n"], types["price"], types["f"]) == (
        "long",
        "long",
        "decimal(12,4)",
        "double",
    )


def test_a_table_that_would_be_corrupted_is_refused_and_costs_no_other(
    servers: Stack, lake: JobProcess, captured: Make
) -> None:
    letters, events = servers.log.ends(DLQ_CDC_TOPIC), servers.log.ends(PRIORITY_TOPIC)
    bad, good = captured("public.bad"), captured("public.good")
    columns = {"id": of("int32"), "n": of("int32")}
    fine, other = Postgres(columns, ("id",)), Postgres(columns, ("id",))
    bad.send(fine.create({"id": 1, "n": 1}))
    until(lambda: len(bad.rows()) == 1, "the first row")
    as_text = Postgres({"id": of("int32"), "n": of("string")}, ("id",), lsn=2000)
    other_key = Postgres(columns, ("n",), lsn=2100)
    no_key = Postgres(columns, (), lsn=2200)
    bad.send(
        as_text.update({"id": 1, "n": "x"}),
        other_key.create({"id": 2, "n": 2}),
        no_key.create({"id": 3, "n": 3}),
        (b"k", b"no json"),
    )
    good.send(other.create({"id": 1, "n": 1}))
    _settles(good, {(1,): {"id": 1, "n": 1}}, "id")
    until(
        lambda: [e["type"] for e in _incidents(servers, events, bad)] == ["lily.incident.opened"],
        "an incident",
    )
    assert _incidents(servers, events, good) == []
    reasons = {
        header(letter.headers(), "reason"): letter.value()
        for letter in servers.log.read(DLQ_CDC_TOPIC, letters)
    }
    assert set(reasons) == {
        b"column 'n' was int32 and is now string",
        b"the primary key was (id) and is now (n)",
        b"no primary key",
        b"not a JSON object",
    }
    assert reasons[b"not a JSON object"] == b"no json"
    assert bad.latest("id") == {(1,): {"id": 1, "n": 1}}
    bad.send(fine.update({"id": 1, "n": 5}, lsn=3000))
    _settles(bad, {(1,): {"id": 1, "n": 5}}, "id")
    until(
        lambda: (
            [e["type"] for e in _incidents(servers, events, bad)]
            == ["lily.incident.opened", "lily.incident.resolved"]
        ),
        "the incident's end",
    )
    opened, resolved = _incidents(servers, events, bad)
    assert opened["data"]["incident_id"] == resolved["data"]["incident_id"]
    assert opened["subject"] == f"cdc://{bad.capture.source}/public/bad"


def test_one_bad_message_costs_no_good_one(servers: Stack, lake: JobProcess, captured: Make) -> None:
    letters = servers.log.ends(DLQ_CDC_TOPIC)
    table, users = (
        captured(),
        Postgres({"id": of("int32"), "at": of("string", "io.debezium.time.ZonedTimestamp")}, ("id",)),
    )
    bad = users.create({"id": 2, "at": "yesterday"})
    table.send(users.create({"id": 1, "at": None}), bad, users.create({"id": 3, "at": None}))
    _settles(table, {(1,): {"id": 1, "at": None}, (3,): {"id": 3, "at": None}}, "id")
    (letter,) = until(lambda: list(servers.log.read(DLQ_CDC_TOPIC, letters)), "the dead letter")
    assert (letter.key(), letter.value()) == bad
    assert header(letter.headers(), "table") == table.capture.path.encode()


def test_documents_of_mongodb(servers: Stack, lake: JobProcess, captured: Make) -> None:
    table, reviews = captured("shop.reviews"), Mongo()
    one, two = '{"$oid": "1"}', '"two"'
    table.send(reviews.message("r", one, '{"stars": 1}'), reviews.message("c", two, '{"stars": 2}'))
    table.send(
        reviews.message("u", one, '{"stars": 5}'), reviews.message("u", two, None), reviews.message("d", one)
    )
    _settles(table, {(two,): {"_id": two, "document": '{"stars": 2}'}}, "_id")


def test_truncate_empties_the_table_for_late_rows_too(
    servers: Stack, lake: JobProcess, captured: Make
) -> None:
    table, users = captured(), Postgres({"id": of("int32"), "n": of("int32")}, ("id",))
    table.send(*(users.create({"id": number, "n": 0}) for number in range(20)))
    until(lambda: len(table.latest("id")) == 20, "the rows")
    late = users.create({"id": 20, "n": 1})
    table.send(users.truncate(), users.create({"id": 1, "n": 2}))
    _settles(table, {(1,): {"id": 1, "n": 2}}, "id")
    table.send(late, users.create({"id": 21, "n": 3}))
    _settles(table, {(1,): {"id": 1, "n": 2}, (21,): {"id": 21, "n": 3}}, "id")


def test_compaction_folds_what_waits_and_a_restart_finds_the_tables_again(
    servers: Stack, lake: JobProcess, captured: Make
) -> None:
    table, users = captured(), Postgres({"id": of("int32"), "n": of("int32")}, ("id",))
    for number in range(3):
        table.send(*(users.update({"id": key, "n": number}) for key in range(10)))
        until(lambda n=number: [row["n"] for row in table.latest("id").values()] == [n] * 10, "the rows")
    until(lambda: {row["__layer"] for row in table.rows()} == {"primary"}, "compaction")
    assert len(table.rows()) == 10
    table.send(users.delete({"id": 0}))
    until(lambda: len(table.latest("id")) == 9, "the delete")
    lake.kill()
    lake.start()
    until(lambda: {row["__layer"] for row in table.rows()} == {"primary"}, "compaction after the restart")
    assert len(table.latest("id")) == 9


def test_a_topic_that_is_deleted_costs_no_other(servers: Stack, lake: JobProcess, captured: Make) -> None:
    users, restarts = (
        Postgres({"id": of("int32")}, ("id",)),
        lake.metric("lily_stream_restarts_total", query="cdc"),
    )
    doomed, other = captured("public.doomed"), captured("public.other")
    for table in (doomed, other):
        table.send(users.create({"id": 1}))
        _settles(table, {(1,): {"id": 1}}, "id")
    doomed.delete_topic()
    other.send(users.create({"id": 2}))
    _settles(other, {(1,): {"id": 1}, (2,): {"id": 2}}, "id")
    assert doomed.latest("id") == {(1,): {"id": 1}}
    assert lake.metric("lily_stream_restarts_total", query="cdc") == restarts


def test_what_kafka_dropped_before_it_was_read_is_told(
    servers: Stack, lake: JobProcess, captured: Make
) -> None:
    events = servers.log.ends(PRIORITY_TOPIC)
    table, users = captured(), Postgres({"id": of("int32")}, ("id",))
    table.send(users.create({"id": 1}), partition=0)
    _settles(table, {(1,): {"id": 1}}, "id")
    assert lake.stop() == 0
    table.send(*(users.create({"id": number}) for number in range(2, 6)), partition=0)
    table.drop_before(0, 4)
    lake.start()
    _settles(table, {(1,): {"id": 1}, (5,): {"id": 5}}, "id")
    (told,) = until(lambda: _incidents(servers, events, table), "an incident")
    assert told["data"]["title"].endswith("3 messages were dropped by Kafka before they were read")
