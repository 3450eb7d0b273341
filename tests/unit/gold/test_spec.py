"""Declarations: what is accepted, and that each error names its field."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pydantic import ValidationError

from lily_common.gold import spec
from lily_common.gold.builtin import builtin
from lily_common.gold.text import load

BILLS: dict[str, Any] = {
    "name": "bills_extended",
    "fact": "cdc.shop.public.bills",
    "dimensions": [
        {
            "source": "cdc.shop.public.payments",
            "on": {"bill_id": "id"},
            "join": "left",
            "pick": "latest by updated_at",
        }
    ],
    "select": {
        "bill_id": "bills.id",
        "bill_amount": "bills.amount",
        "payment_status": "payments.status",
    },
    "key": ["bill_id"],
}


def changed(**changes: Any) -> dict[str, Any]:
    """BILLS with these fields; `a__0__b` stands for ["a"][0]["b"], and `...` removes."""
    made = copy.deepcopy(BILLS)
    for path, value in changes.items():
        place: Any = made
        *parents, last = [int(part) if part.isdigit() else part for part in path.split("__")]
        for parent in parents:
            place = place[parent]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return made


def wrong(declaration: Any) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        spec.read(declaration)
    return spec.problems(caught.value)


def test_a_declaration_and_its_defaults() -> None:
    table = spec.read(BILLS)
    assert (table.fact.alias, table.dimensions[0].alias) == ("bills", "payments")
    assert (table.interval, table.overlap, table.full_refresh) == (60, 0, 604_800)
    assert table.fact_key() == ["id"]
    assert table.dimensions[0].pick_column == "updated_at"
    assert table.columns == ["bill_id", "bill_amount", "payment_status"]
    again = spec.read(table.model_dump(mode="json", by_alias=True))
    assert again == table
    assert again.digest == table.digest


def test_what_does_not_change_the_rows_does_not_change_the_digest() -> None:
    table = spec.read(BILLS)
    assert spec.read(changed(interval="1h", description="x", overlap="2h")).digest == table.digest
    assert spec.read(changed(select__bill_amount="bills.amount + 1")).digest != table.digest


def test_yaml_reads_on_as_a_name_and_spans_of_time() -> None:
    text = """
name: bills_extended
fact: {source: cdc.shop.public.bills, as: b}
dimensions:
  - source: cdc.shop.public.payments
    on: {bill_id: id}
    pick: latest by updated_at
    include: false
select: {bill_id: b.id, state: payments.status}
key: [bill_id]
interval: 30m
overlap: 60m
full_refresh: null
"""
    table = spec.read(load(text))
    assert (table.interval, table.overlap, table.full_refresh) == (1800, 3600, None)
    assert table.dimensions[0].on == {"bill_id": "id"}
    assert not table.dimensions[0].include


@pytest.mark.parametrize(
    "text", ["a: &a [x]\nb: *a", "{", "a: !!python/object/apply:os.system [ls]", "x" * 300_000]
)
def test_yaml_that_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"YAML|kB"):
        load(text)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"fact": "cdc.shop.bills"}, "fact.source"),
        ({"fact": "cdc.shop.public.../../x"}, "fact.source"),
        ({"fact": "cdc.shop.public.a/b"}, "fact.source"),
        ({"fact": "silver.edges"}, "fact.source"),
        ({"name": "Bills"}, "name"),
        ({"select": {}}, "select"),
        ({"select__x": "bills.a +"}, "select.x"),
        ({"select__x": "nobody.a"}, "select.x"),
        ({"select__x": "amount"}, "select.x"),
        ({"select__x": "sum(bills.amount)"}, "select.x"),
        ({"select": {"__x": "bills.a"}}, "select.__x.[key]"),
        ({"select__Bill_ID": "bills.a"}, "select"),
        ({"key": ...}, "key"),
        ({"key": ["nothing"]}, "key"),
        ({"key": ["payment_status"]}, "key"),
        ({"key": ["bill_id", "bill_id"]}, "key"),
        ({"interval": "soon"}, "interval"),
        ({"unknown": 1}, "unknown"),
        ({"dimensions__0__pick": "newest"}, "dimensions.0.pick"),
        ({"dimensions__0__aggregate": {"n": "count(*)"}}, "dimensions.0.pick"),
        ({"dimensions__0__on": {"bill_id": "later.id"}}, "dimensions.0.on.bill_id"),
        ({"dimensions__0__on": {}}, "dimensions.0.on"),
        ({"dimensions__0__as": "bills"}, "dimensions.0.as"),
        ({"dimensions__0__join": "cross"}, "dimensions.0.join"),
        ({"dimensions__0__read": "window"}, "dimensions.0.read"),
        ({"dimensions__0__deletes": "keep"}, "dimensions.0.deletes"),
        ({"dimensions__0__join": "full", "dimensions__0__on": {"bill_id": "other"}}, "dimensions.0.on"),
        ({"fact": {"source": "cdc.shop.public.bills", "partial_update": True}}, "fact.partial_update"),
        ({"dimensions__0__join": "inner", "dimensions__0__partial_update": True}, "dimensions.0.partial_update"),
        ({"dimensions__0__partial_update": True, "where": "payments.status = 'x'"}, "where"),
        ({"group_by": ["payment_status"], "key": ...}, "aggregates"),
        ({"aggregates": {"n": "count(*)"}}, "group_by"),
        ({"group_by": ["payment_status"], "aggregates": {"n": "count(*)"}}, "key"),
        ({"group_by": ["bill_id"], "aggregates": {"n": "sum(nothing)"}}, "aggregates.n"),
        ({"group_by": ["bill_id"], "aggregates": {"n": "upper(bill_id)"}}, "aggregates.n"),
    ],
)  # fmt: skip
def test_errors_name_the_field(changes: dict[str, Any], field: str) -> None:
    assert field in [name for name, _ in wrong(changed(**changes))]


@pytest.mark.parametrize(
    "text",
    [
        "reflect('java.lang.System', 'exit', 1)",
        "java_method('java.lang.Runtime', 'getRuntime')",
        "`reflect`('a', 'b')",
        "input_file_name()",
        "(SELECT max(id) FROM other)",
        "bills.id IN (SELECT id FROM other)",
        "EXISTS (SELECT 1)",
        "row_number() OVER (ORDER BY bills.id)",
        "current_timestamp()",
        "current_timestamp",
        "current_date",
        "current_user",
        "rand()",
        "uuid()",
        "transform(bills.a, x -> x + 1)",
        "bills.*",
        "bills.id; DROP TABLE x",
        "bills.id -- hidden",
        "bills.id /* hidden */",
        "a.b.c.d",
        "from_json(bills.a, 'a int')",
        "repeat('x', 1000000000)",
        "sequence(1, 1000000000)",
        "${spark.x}",
        "DROP TABLE x",
        "",
        "(" * 5000,
    ],
)
def test_expressions_that_are_refused(text: str) -> None:
    assert [name for name, _ in wrong(changed(select__x=text))] == ["select.x"]


@pytest.mark.parametrize(
    "text",
    [
        "bills.amount * 1.19",
        "CASE WHEN bills.amount > 10 THEN 'large' ELSE 'small' END",
        "coalesce(payments.status, 'none')",
        "cast(bills.amount AS decimal(10, 2))",
        "bills.amount IN (1, 2, 3) AND NOT bills.amount BETWEEN 1 AND 2",
        "date_trunc('day', bills.created_at)",
        "concat(bills.a, '-', bills.b)",
        "bills.a LIKE 'x%' OR bills.b IS NOT NULL",
        "`bills`.`odd name`",
        "if(bills.a <=> payments.b, 1, 0)",
        "extract(year FROM bills.created_at)",
        "bills.a || 'x'",
    ],
)
def test_expressions_that_are_allowed(text: str) -> None:
    assert spec.read(changed(select__x=text)).select["x"] == text


def test_a_summary_table() -> None:
    table = spec.read(
        changed(
            key=...,
            group_by=["payment_status"],
            aggregates={"bills": "count(*)", "amount": "sum(bill_amount)"},
        )
    )
    assert (table.key, table.columns) == (["payment_status"], ["payment_status", "bills", "amount"])


def test_the_built_in_tables() -> None:
    assert list(builtin()) == ["asset_overview", "tag_coverage"]
    assert all(table.key[0] == "tenant" for table in builtin().values())
