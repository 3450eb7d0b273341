"""What an erasure stops at a stream's door, and what it does to rows of each kind of table."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa

from lily_common.erasing.digests import DigestKey, identifier
from lily_common.erasing.stoplist import ERASED, Entry, Matcher, StopList
from lily_spark.erasing import gate, rules
from lily_spark.tables import ASSETS, RAW

KEY = DigestKey(bytes(range(32)))
GONE, STAYS = "pg://h/shop/customers", "pg://h/shop/orders"
JANE = identifier("jane@x.io")
ENTRIES = [
    Entry(id="1", tenant="acme", kind="asset", digest=KEY.asset("acme", GONE)),
    Entry(
        id="2", tenant="acme", kind="person", digest=KEY.person("acme", JANE.form, JANE.token), form=JANE.form
    ),
]
STOP, MATCHER = StopList(KEY, ENTRIES), Matcher(KEY, "acme", ENTRIES)


def _event(subject: str, **data: Any) -> str:
    return orjson.dumps({"id": "1", "source": "s", "subject": subject, "data": data}).decode()


def test_events_that_arrive_late_are_stopped_for_that_tenant_alone() -> None:
    texts = [_event(GONE), _event(STAYS), _event(STAYS, owners=["jane@x.io"]), _event(GONE)]
    rows = pa.table({"tenant": ["acme", "acme", "acme", "beta"], "event": texts, "n": [1, 2, 3, 4]})
    assert gate.pass_events(rows, STOP)["n"].to_pylist() == [2, 4]
    assert gate.pass_events(rows, StopList(KEY)) is rows


def test_requests_and_dead_letters_that_hold_it_are_stopped() -> None:
    body = orjson.dumps([{"data": {"qualified_name": GONE}}])
    requests = pa.table({"tenant": ["acme", "beta", "acme"], "body": [body, body, b"not json"]})
    assert gate.pass_requests(requests, STOP)["tenant"].to_pylist() == ["beta", "acme"]
    letters = pa.table({"key": [b"acme|x", b"beta|x", None], "raw": [body, body, body]})
    assert gate.pass_letters(letters, STOP)["key"].to_pylist() == [b"beta|x", None]


def _register(**more: Any) -> dict[str, Any]:
    row = {"tenant": "acme", "subject": STAYS, "register": "aspect|core", "source": "s", "event_id": "1"}
    return row | {"data": "{}"} | more


def test_registers_go_by_what_they_are_about_and_are_changed_by_what_they_say() -> None:
    rule = rules.rule_of(ASSETS.name, MATCHER)
    assert rule(_register(subject=GONE)) is None
    assert rule(_register(register=f"edge|{GONE}|")) is None
    fine = _register(data='{"owners": ["bob"]}')
    assert rule(fine) is fine
    changed = rule(_register(data='{"owners": ["jane@x.io", "bob"]}'))
    assert changed is not None
    assert orjson.loads(changed["data"]) == {"owners": [ERASED, "bob"]}


def test_requests_go_with_the_events_they_brought() -> None:
    rule = rules.rule_of(RAW.name, MATCHER, frozenset({"r1"}))
    row = {"request_id": "r2", "path": "/v1/events", "headers": [("user-agent", "x")], "body": b"{}"}
    assert rule(row) is row
    assert rule(row | {"request_id": "r1"}) is None
    assert rule(row | {"body": b'{"a": "jane@x.io"}'}) is None


def test_rows_of_change_data_go_whole_wherever_the_text_stands() -> None:
    rule = rules.rule_of("cdc/acme/shop/public.customers", MATCHER)
    for held in ("jane@x.io", ["jane@x.io"], {"mail": "jane@x.io"}, '{"mail": "jane@x.io"}'):
        assert rule({"id": 1, "value": held, "blob": b"\x00"}) is None
    fine = {"id": 2, "value": "bob@x.io", "blob": b"\x00", "at": None}
    assert rule(fine) is fine


def test_of_a_shared_file_other_tenants_rows_stay() -> None:
    rows = pa.RecordBatch.from_pylist(
        [_register(subject=GONE), _register(subject=GONE, tenant="beta"), _register(data='{"a":"jane@x.io"}')]
    )
    kept, touched = rules.cleaned(rows, rules.rule_of(ASSETS.name, MATCHER), "acme")
    assert touched == 2
    assert [row["tenant"] for row in kept.to_pylist()] == ["beta", "acme"]
    assert orjson.loads(kept.to_pylist()[1]["data"]) == {"a": ERASED}
