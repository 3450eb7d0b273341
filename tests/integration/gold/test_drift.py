"""Full refreshes: what differs is told row by row and put right; what is missing in the lake makes one by itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.integration.gold.test_bills import Shop, bill, payment

from lily_spark.cdc.registry import stored
from lily_spark.config import SparkSettings
from lily_spark.gold.refresh import Refresher
from lily_spark.sinks.layers import UpdatesLayer
from lily_spark.tables import open_table
from lily_spark.upkeep.compaction import compact


@pytest.fixture
def shop(spark: SparkSession, settings: SparkSettings) -> Shop:
    made = Shop(spark, settings)
    made.bills.write([bill(number) for number in range(1, 6)])
    made.payments.write([payment(11, 1), payment(14, 4)])
    return made


def spoil(shop: Shop, table: Refresher, number: int, *, gone: bool = False, **values: Any) -> None:
    """Write past the refresher, as a fault would."""
    layered = stored(table.target.path, shop.settings)
    assert layered is not None
    rows = {"bill_id": [number], **{name: [value] for name, value in values.items()}}
    rows |= {"__version": [f"{10**6:020d}"], "__deleted": [gone]}
    schema = layered.table.schema
    UpdatesLayer(shop.settings, layered).append(
        pa.table({name: pa.array(value, schema.field(name).type) for name, value in rows.items()})
    )
    table.target.reopen()


def test_drift_is_told_and_repaired(shop: Shop) -> None:
    table = shop.refresher()
    table.refresh()
    good = shop.held(table)
    assert table.check(repair=True)["drift"] == 0
    spoil(shop, table, 4, payment_id=14, payment_status="PAID")
    spoil(shop, table, 1, gone=True)
    spoil(shop, table, 99, payment_status="NONE")
    told = table.check(repair=False)
    assert (told["drift"], told["repaired"]) == (3, 0)
    kinds = {found["key"]["bill_id"]: found["kind"] for found in told["examples"]}
    assert kinds == {1: "missing", 4: "wrong", 99: "too much"}
    wrong = next(found for found in told["examples"] if found["kind"] == "wrong")
    assert wrong["columns"]["payment_status"] == {"is": "PAID", "should": "PENDING"}
    assert shop.held(table) != good


def test_a_dimension_that_is_left_out_waits_for_the_full_refresh(shop: Shop) -> None:
    dimension = {
        "source": "cdc.shop.public.payments",
        "on": {"bill_id": "id"},
        "pick": "latest by updated_at",
        "include": False,
    }
    table = shop.refresher(dimensions=[dimension])
    table.refresh()
    shop.payments.write([payment(14, 4, "PAID", hour=2)])
    assert table.refresh()["facts"] == 0
    assert shop.held(table)[4] == (14, "PENDING")
    told = table.refresh(full=True)
    assert (told["mode"], told["drift"], told["repaired"]) == ("full", 1, 1)
    assert shop.held(table)[4] == (14, "PAID")


def test_a_version_that_is_gone_makes_a_full_refresh(shop: Shop, settings: SparkSettings) -> None:
    table = shop.refresher()
    table.refresh()
    shop.payments.write([payment(14, 2, "PAID", hour=2)])
    shop.payments.compact()
    vacuumed = open_table(shop.payments.layered.table, settings)
    assert vacuumed.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    told = table.refresh()
    assert told["mode"] == "full"
    assert "gone" in told["reason"] or "version" in told["reason"]
    assert (shop.held(table)[4], shop.held(table)[2]) == ((None, None), (14, "PAID"))
    shop.payments.write([payment(14, 4, "PAID", hour=3)])
    assert table.refresh()["mode"] == "incremental"
    assert shop.held(table)[4] == (14, "PAID")


def test_too_much_at_once_makes_a_full_refresh(
    shop: Shop, spark: SparkSession, settings: SparkSettings
) -> None:
    small = settings.model_copy(update={"gold_incremental_rows": 3})
    shop.settings = small
    table = shop.refresher()
    table.refresh()
    shop.bills.write([bill(number, "20.00") for number in range(1, 6)])
    told = table.refresh()
    assert (told["mode"], told["repaired"]) == ("full", 5)
    assert "more than 3" in told["reason"]
    assert len(shop.held(table)) == 5
    shop.payments.write([payment(14, 4, "PAID", hour=2)])
    assert table.refresh()["mode"] == "incremental"


def test_another_declaration_makes_the_table_anew(shop: Shop) -> None:
    table = shop.refresher()
    table.refresh()
    select = {"bill": "bills.id", "doubled": "bills.amount * 2"}
    other = shop.refresher(select=select, key=["bill"], dimensions=[])
    told = other.refresh()
    assert told["reason"] == "the declaration is another than the table was made by"
    assert other.refresh()["facts"] == 0


def test_refreshes_go_on_beside_compactions(shop: Shop, spark: SparkSession, settings: SparkSettings) -> None:
    table = shop.refresher()
    table.refresh()
    for step in range(3):
        shop.payments.write([payment(14, 1 + step, f"S{step}", hour=3 + step)])
        table.refresh()
        assert table.target.updates is not None
        compact(spark, settings, table.target.updates)
        shop.bills.compact()
        assert table.refresh()["facts"] == 0
    assert shop.held(table)[3] == (14, "S2")
    assert table.check(repair=True)["drift"] == 0


def test_plan_and_explain(shop: Shop) -> None:
    from lily_spark.gold import advice

    table = shop.refresher()
    assert advice.plan(table)["would"] == "build"
    table.refresh()
    assert advice.plan(table)["would"] == "nothing"
    shop.payments.write([payment(14, 2, "PAID", hour=2)])
    told = advice.plan(table)
    assert (told["would"], told["facts"]) == ("incremental", 2)
    payments = next(source for source in told["sources"] if source["source"] == "payments")
    assert (payments["changes"], payments["facts"]) == (2, 2)
    explained = advice.explain(table)
    payments = next(source for source in explained["sources"] if source["source"] == "payments")
    assert payments["advice"] == "include"
    assert payments["rows_per_hour"] > 0
    assert payments["facts_per_hour"] > 0
