"""The mirror's pure parts: keys, words, sensitive fields, pruning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily_common import documents
from lily_common.envelope import accept
from lily_common.names import message_key
from lily_spark.mirror.changes import Message, parse
from lily_spark.mirror.policy import sensitive_fields


@given(st.text(max_size=30))
def test_any_key_becomes_a_field_name_and_comes_back(key):
    name = documents.escape_key(key)
    assert not set(name) & {".", "$", "\x00"}
    assert documents.unescape_key(name) == key


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_search_for_a_name_finds_it(left, right):
    words = documents.search_words(left, right)
    assert words == sorted(words)
    if len(words) < 40:
        for word in documents.query_words(left):
            assert word in words


def test_words_of_names():
    assert documents.search_words("orderItems", "pg://shop-db:5432/x_y") == sorted(
        ["orderitems", "order", "items", "pg", "shop", "db", "5432", "x", "y"]
    )
    assert documents.query_words("  Shop-DB  ") == ["shop", "db"]


def test_ids_differ_whatever_the_texts():
    assert documents.edge_id("t", "a", "b", "") != documents.edge_id("t", "a", "", "b")
    assert documents.asset_id("t", "a") == message_key("t", "a")


def test_sensitive_fields_go_wherever_they_stand():
    data = {
        "qualified_name": "q",
        "tag": "PII",
        "sql": 1,
        "properties": {"sql": 1, "rows": 2},
        "set": {"sql": 1, "properties": {"sql": 1, "x": 1}, "y": 1},
        "unset": ["sql", "z"],
    }
    sensitive = frozenset({"sql", "tag", "qualified_name"})
    assert documents.without_sensitive(data, sensitive) == {
        "qualified_name": "q",
        "tag": "PII",
        "properties": {"rows": 2},
        "set": {"properties": {"x": 1}, "y": 1},
        "unset": ["z"],
    }
    assert data["properties"] == {"sql": 1, "rows": 2}


def test_a_policy_is_read_or_refused():
    assert sensitive_fields(b'{"tenant": "t", "sensitive_fields": ["sql"]}') == {"sql"}
    assert sensitive_fields(b'{"tenant": "t"}') == frozenset()
    for broken in (b"", b"[]", b'{"sensitive_fields": "sql"}', b'{"sensitive_fields": [1]}'):
        with pytest.raises(ValueError):
            sensitive_fields(broken)


def _event(now, **more):
    data = {"qualified_name": "q", "tag": "PII", "b": 1, "a": {"y": 1, "x": 2}}
    envelope = {"specversion": "1.0", "id": "1", "source": "s", "type": "lily.classification.attached"}
    event = accept("t", envelope | {"data": data} | more, now)
    return parse(Message(event.key.decode(), event.value.decode(), "t/0/0"))


def test_a_body_is_what_the_client_said_not_how_or_when():
    from datetime import UTC, datetime

    first = _event(datetime(2026, 1, 1, tzinfo=UTC))
    again = _event(
        datetime(2026, 1, 2, tzinfo=UTC),
        traceparent="x",
        data={"a": {"x": 2, "y": 1}, "b": 1, "tag": "PII", "qualified_name": "q"},
    )
    other = _event(datetime(2026, 1, 1, tzinfo=UTC), data={"qualified_name": "q", "tag": "PII", "b": 2})
    assert (first.identity, first.body) == (again.identity, again.body)
    assert first.identity == other.identity
    assert first.body != other.body
